"""What can be asked: linear queries and the marginals made of them."""

from maquette.query.linear import LinearQuery
from maquette.query.marginal import Buckets, Marginal, marginal_of

__all__ = ["Buckets", "LinearQuery", "Marginal", "marginal_of"]
