from . import (
    composition as composition,
    cuts as cuts,
    disjunctions as disjunctions,
    distance as distance,
    game as game,
    holdout as holdout,
    learning as learning,
    lower as lower,
    net as net,
    noise as noise,
    offline as offline,
    online as online,
    polynomial as polynomial,
    projection as projection,
    regret as regret,
    selection as selection,
    transfer as transfer,
    updates as updates,
)
from .disjunctions import plan_disjunctions as plan_disjunctions
from .planning.chart import Bar as Bar, bar_chart as bar_chart
from .planning.plan import Plan as Plan, Promise as Promise, plan as plan
from .planning.question import magnitude as magnitude
from .planning.tables import (
    html_table as html_table,
    least_rows as least_rows,
    text_table as text_table,
    whole as whole,
)
