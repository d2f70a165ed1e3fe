"""How exact an answer is: what a question needs of each part, and how far noise can have moved it."""
