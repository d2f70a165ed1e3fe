import mbi
import numpy as np
import pandas as pd

frame = pd.read_csv("people.csv").astype({"smoker": int})
domain = mbi.Domain(["age", "smoker"], [100, 2])
exact = mbi.Dataset(frame.to_dict("series"), domain).project(["age", "smoker"]).datavector()
noisy = exact + np.random.default_rng().laplace(0, 1 / 0.5, exact.size)
measured = mbi.LinearMeasurement(noisy, ("age", "smoker"), stddev=2**0.5 / 0.5)
model = mbi.estimation.MirrorDescent().estimate(domain, [measured])
print(model.project(("age", "smoker")).values[65:, 1].sum())
