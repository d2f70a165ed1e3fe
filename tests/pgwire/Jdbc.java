import java.io.ByteArrayOutputStream;
import java.io.StringWriter;
import java.sql.*;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** What a Java program does with its driver. */
public class Jdbc {
    static int count(ResultSet found) throws SQLException {
        int rows = 0;
        while (found.next()) rows++;
        return rows;
    }

    public static void main(String[] given) throws Exception {
        try (Connection link = DriverManager.getConnection(given[0], given[1], given[2])) {
            DatabaseMetaData about = link.getMetaData();
            StringBuilder names = new StringBuilder();
            ResultSet tables = about.getTables(null, "public", "%", new String[] {"TABLE"});
            while (tables.next()) names.append(names.length() == 0 ? "" : " ").append(tables.getString("TABLE_NAME"));
            System.out.println("tables: " + names);
            StringBuilder columns = new StringBuilder();
            ResultSet found = about.getColumns(null, "public", "people", null);
            while (found.next())
                columns.append(columns.length() == 0 ? "" : ", ").append(found.getString("COLUMN_NAME")).append(' ')
                    .append(found.getString("TYPE_NAME"));
            System.out.println("columns: " + columns);
            System.out.println("keys: " + count(about.getPrimaryKeys(null, "public", "people")) + " "
                + count(about.getImportedKeys(null, "public", "people")) + " "
                + count(about.getExportedKeys(null, "public", "people")) + " "
                + count(about.getIndexInfo(null, "public", "people", false, false)));
            count(about.getTypeInfo());
            count(about.getSchemas());
            about.getMaxColumnNameLength();
            about.getSQLKeywords();
            link.setAutoCommit(false);
            try (Statement steps = link.createStatement()) {
                steps.setFetchSize(64);
                System.out.println("fetched: " + count(steps.executeQuery("SELECT age, region FROM people")));
            }
            link.commit();
            link.setAutoCommit(true);
            try (PreparedStatement asked = link.prepareStatement(
                    "SELECT count(*), avg(age) FROM people WHERE age >= ? AND region = ? AND smoker = ? AND born < ?")) {
                long first = -1;
                boolean same = true;
                for (int again = 0; again < 8; again++) { // after five times the driver goes over to binary
                    asked.setInt(1, 20);
                    asked.setString(2, "south");
                    asked.setBoolean(3, true);
                    asked.setDate(4, Date.valueOf("1990-01-01"));
                    ResultSet answer = asked.executeQuery();
                    answer.next();
                    if (first < 0) first = answer.getLong(1);
                    same &= first == answer.getLong(1) && answer.getDouble(2) >= 0;
                }
                System.out.println("prepared: " + (same ? "ok" : "changes"));
            }
            try (Statement asked = link.createStatement()) {
                System.out.println("regions: " + count(asked.executeQuery(
                    "SELECT region, count(*) AS n FROM people GROUP BY region")));
                System.out.println("warning: " + asked.getWarnings().getMessage().split("\n")[0]);
                asked.executeQuery("SELECT count(*) FROM nobody");
            } catch (SQLException error) {
                System.out.println("state: " + error.getSQLState());
            }
            CopyManager copies = link.unwrap(PGConnection.class).getCopyAPI();
            StringWriter lines = new StringWriter();
            long groups = copies.copyOut(
                "COPY (SELECT region, count(*) AS n FROM people GROUP BY region) TO STDOUT (FORMAT csv, HEADER)", lines);
            System.out.println("copied: " + groups + " " + lines.toString().split("\n").length);
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            long rows = copies.copyOut("COPY people TO STDOUT (FORMAT binary)", bytes);
            System.out.println("binary: " + rows + " " + new String(bytes.toByteArray(), 0, 6, "ISO-8859-1"));
            try {
                copies.copyOut("COPY nobody TO STDOUT", new StringWriter());
            } catch (SQLException error) {
                System.out.println("refused copy: " + error.getSQLState());
            }
            System.out.println("after it: " + count(link.createStatement().executeQuery("SELECT 1")));
        }
    }
}
