import pandas as pd
from snsql import Privacy, from_df

metadata = {
    "": {
        "my": {
            "people": {
                "row_privacy": True,
                "age": {"type": "int", "lower": 0, "upper": 99},
                "smoker": {"type": "boolean"},
            }
        }
    }
}
reader = from_df(pd.read_csv("people.csv"), privacy=Privacy(epsilon=0.5, delta=1e-9), metadata=metadata)
print(reader.execute("SELECT count(*) FROM my.people WHERE age >= 65 AND smoker = 1"))
