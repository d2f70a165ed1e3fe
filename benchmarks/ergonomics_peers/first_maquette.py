import maquette as mq

schema = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker")])
curator = mq.Curator(mq.open_table("people.csv", schema), mq.Budget(epsilon=1.0))
print(mq.answer(curator, "SELECT count(*) FROM people WHERE age >= 65 AND smoker", epsilon=0.5))
