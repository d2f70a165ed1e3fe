from .app import make_app as make_app
from .heads import punctual as punctual
