"""Python's drivers: psycopg 2 and 3, asyncpg, pg8000, SQLAlchemy, pandas."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import ssl

import pytest
from pg_door import Door

psycopg = pytest.importorskip("psycopg")
psycopg2 = pytest.importorskip("psycopg2")
asyncpg = pytest.importorskip("asyncpg")
pg8000 = pytest.importorskip("pg8000.dbapi")
sa = pytest.importorskip("sqlalchemy")

ASKED = "SELECT region, count(*) AS n, avg(age) AS a FROM people GROUP BY region"
REGIONS = ["north", "south", "east", "it's west"]


class TestPsycopg3:
    def test_parameters_in_text_and_binary(self, door: Door) -> None:
        with psycopg.connect(door.dsn()) as connection:
            for binary in (False, True):
                found = connection.execute(
                    "SELECT count(*) FROM people WHERE age >= %s AND region = %s", [30, "it's west"], binary=binary
                ).fetchone()
                assert isinstance(found[0], int)
                rows = connection.execute(ASKED, binary=binary).fetchall()
                assert [row[0] for row in rows] == REGIONS
                assert all(isinstance(row[2], float) for row in rows)

    def test_prepared_statements_and_pipelines(self, door: Door) -> None:
        with psycopg.connect(door.dsn(), prepare_threshold=0) as connection:
            with connection.pipeline():
                cursors = [
                    connection.execute("SELECT count(*) FROM people WHERE age >= %s", [age]) for age in (20, 40, 60)
                ]
            numbers = [cursor.fetchone()[0] for cursor in cursors]
            assert len(numbers) == 3

    def test_a_server_side_cursor_fetches_in_steps(self, door: Door) -> None:
        with psycopg.connect(door.dsn()) as connection, connection.cursor(name="steps") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT age, region FROM people")
            assert len(cursor.fetchmany(30)) == 30
            assert len(cursor.fetchall()) == 970

    def test_copy(self, door: Door) -> None:
        with psycopg.connect(door.dsn()) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT region, count(*) FROM people GROUP BY region) TO STDOUT") as copy:
                rows = list(copy.rows())
            assert [row[0] for row in rows] == REGIONS
            with cursor.copy("COPY people TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int8", "text", "bool", "float8", "date"])
                rows = list(copy.rows())
            assert len(rows) == 1000
            assert isinstance(rows[0][4], dt.date)

    def test_errors_have_their_classes(self, door: Door) -> None:
        with psycopg.connect(door.dsn(), autocommit=True) as connection:
            for sql, kind in [
                ("SELECT count(*) FROM nobody", psycopg.errors.UndefinedTable),
                ("SELECT avg(weight) FROM people", psycopg.errors.UndefinedColumn),
                ("SELECT count(* FROM people", psycopg.errors.SyntaxError),
                ("DELETE FROM people", psycopg.errors.ReadOnlySqlTransaction),
                ("SELECT pg_read_file('x')", psycopg.errors.UndefinedFunction),
                ("SET maquette.alpha = 3", psycopg.errors.InvalidParameterValue),
                ("SHOW maquette.nothing", psycopg.errors.UndefinedObject),
            ]:
                with pytest.raises(kind) as caught:
                    connection.execute(sql)
                assert caught.value.diag.message_primary
            assert connection.execute("SELECT 1").fetchone() == (1,)

    def test_notices_tell_price_and_promise(self, door: Door) -> None:
        said: list[tuple[str, str]] = []
        with psycopg.connect(door.dsn(), autocommit=True) as connection:
            connection.add_notice_handler(lambda diag: said.append((diag.message_primary, diag.message_detail)))
            connection.execute("SELECT count(*) FROM people WHERE age >= 77")
            assert "cost" in said[0][0] or "free" in said[0][0]
            assert "probability" in said[0][1]
            connection.execute("SET client_min_messages = warning")
            connection.execute("SELECT count(*) FROM people WHERE age >= 77")
            assert len(said) == 1

    def test_transactions(self, door: Door) -> None:
        with psycopg.connect(door.dsn()) as connection:
            connection.execute("SELECT 1")
            with pytest.raises(psycopg.errors.UndefinedTable):
                connection.execute("SELECT count(*) FROM nobody")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                connection.execute("SELECT 1")
            connection.rollback()
            with connection.transaction():
                connection.execute("SELECT 1")

    def test_tls_with_channel_binding(self, door: Door) -> None:
        for binding in ("require", "prefer", "disable"):
            with psycopg.connect(door.dsn(sslmode="require", channel_binding=binding)) as connection:
                assert connection.pgconn.ssl_in_use
                assert connection.execute("SELECT current_user").fetchone() == ("alice",)
        with pytest.raises(psycopg.OperationalError, match="channel binding"):
            psycopg.connect(door.dsn(sslmode="disable", channel_binding="require"))


class TestPsycopg2:
    def test_everyday(self, door: Door) -> None:
        connection = psycopg2.connect(door.dsn())
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM people WHERE age >= %s AND born < %s", [30, dt.date(1980, 1, 1)])
            assert isinstance(cursor.fetchone()[0], int)
            cursor.execute("SELECT count(*) FROM people WHERE region = ANY(%s)", [["north", "south"]])
            assert cursor.rowcount == 1
        with connection, connection.cursor("named") as cursor:
            cursor.execute("SELECT * FROM people")
            assert len(cursor.fetchmany(10)) == 10
        assert any("NOTICE" in line for line in connection.notices)
        taken = io.StringIO()
        with connection, connection.cursor() as cursor:
            cursor.copy_expert("COPY (SELECT region, count(*) FROM people GROUP BY region) TO STDOUT CSV", taken)
        assert len(taken.getvalue().splitlines()) == 4
        connection.close()


class TestAsyncpg:
    def test_everyday(self, door: Door) -> None:
        async def use() -> None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            where = {"host": "127.0.0.1", "port": door.port, "database": "maquette", "user": "alice"}
            connection = await asyncpg.connect(**where, password=door.tokens["alice"], ssl=context)
            row = await connection.fetchrow(
                "SELECT count(*) AS n, avg(age) AS a FROM people WHERE age >= $1 AND region = $2 AND smoker = $3",
                *(30, "south", True),
            )
            assert isinstance(row["n"], int)
            assert isinstance(row["a"], float)
            day = dt.date(1980, 1, 1)
            assert await connection.fetchval("SELECT count(*) FROM people WHERE born < $1", day) > 0
            assert await connection.fetchval("SELECT count(*) FROM people WHERE region = ANY($1)", ["north"]) > 0
            statement = await connection.prepare(ASKED)
            assert [a.name for a in statement.get_attributes()] == ["region", "n", "a"]
            assert [r["region"] for r in await statement.fetch()] == REGIONS
            async with connection.transaction():
                steps = [r async for r in connection.cursor("SELECT age FROM people", prefetch=64)]
            assert len(steps) == 1000
            assert await connection.fetchval("SELECT relname FROM pg_class WHERE oid = $1", 1259) == "pg_class"
            taken, said = io.BytesIO(), list[str]()
            connection.add_log_listener(lambda _, message: said.append(message.message))
            await connection.copy_from_query("SELECT smoker, count(*) FROM people GROUP BY smoker", output=taken)
            assert len(taken.getvalue().splitlines()) == 2
            await connection.copy_from_table("people", output=taken, columns=["age"], format="csv")
            assert len(taken.getvalue().splitlines()) == 1002
            assert any("free" in text or "cost" in text for text in said)
            with pytest.raises(asyncpg.UndefinedTableError):
                await connection.fetch("SELECT count(*) FROM nobody")
            await connection.close()

        asyncio.run(use())


class TestPg8000:
    def test_everyday(self, door: Door) -> None:
        connection = pg8000.connect(
            user="alice", password=door.tokens["alice"], host="127.0.0.1", port=door.port, database="maquette"
        )
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM people WHERE age >= %s AND region = %s", (30, "it's west"))
        assert isinstance(cursor.fetchone()[0], int)
        cursor.execute(ASKED)
        assert [row[0] for row in cursor.fetchall()] == REGIONS
        taken = io.BytesIO()
        cursor.execute("COPY (SELECT smoker, count(*) FROM people GROUP BY smoker) TO STDOUT", stream=taken)
        assert len(taken.getvalue().splitlines()) == 2
        assert any(b"free" in note[b"M"] or b"cost" in note[b"M"] for note in connection.notices)
        with pytest.raises(pg8000.DatabaseError):
            cursor.execute("SELECT count(*) FROM nobody")
        connection.rollback()
        connection.close()


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgresql+psycopg2", "postgresql+pg8000"])
class TestSqlAlchemy:
    @pytest.mark.thorough
    def test_reflection_and_expressions(self, door: Door, driver: str) -> None:
        engine = sa.create_engine(door.url(driver))
        with engine.connect() as connection:
            inspector = sa.inspect(connection)
            assert inspector.get_table_names() == ["people", "visits"]
            assert "public" in inspector.get_schema_names()
            columns = {column["name"]: column for column in inspector.get_columns("people")}
            assert isinstance(columns["age"]["type"], sa.BigInteger)
            assert isinstance(columns["born"]["type"], sa.Date)
            assert "levels" in columns["age"]["comment"]
            for about in ("pk_constraint", "foreign_keys", "indexes", "unique_constraints", "check_constraints"):
                assert not (getattr(inspector, f"get_{about}")("people") or {}) or about == "pk_constraint"
            people = sa.Table("people", sa.MetaData(), autoload_with=connection)
            asked = sa.select(sa.func.count()).select_from(people).where(sa.column("age") >= 40)
            assert isinstance(connection.execute(asked).scalar(), int)
            assert len(connection.execute(sa.text("SELECT * FROM people LIMIT :n"), {"n": 4}).fetchall()) == 4
        engine.dispose()


@pytest.mark.thorough
def test_pandas(door: Door) -> None:
    pandas = pytest.importorskip("pandas")
    engine = sa.create_engine(door.url("postgresql+psycopg"))
    frame = pandas.read_sql("SELECT region, count(*) AS n FROM people GROUP BY region", engine)
    assert list(frame.columns) == ["region", "n"]
    assert str(frame["n"].dtype) == "int64"
    assert len(pandas.read_sql_table("people", engine)) == 1000
    engine.dispose()
