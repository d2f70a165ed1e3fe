import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")
context = dp.Context.compositor(
    data=pl.scan_csv("people.csv"),
    privacy_unit=dp.unit_of(contributions=1),
    privacy_loss=dp.loss_of(epsilon=1.0),
    split_evenly_over=2,
    margins=[dp.polars.Margin(max_length=1_000_000)],
)
query = context.query().filter((pl.col("age") >= 65) & pl.col("smoker")).select(dp.len())
print(query.release().collect())
