"""A linear or integer program as matrices, from a Pyomo model or written row by row, for any back-end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tutti.models.solvers.options import Feature
from tutti.topologies.errors import InputError, Unsupported
from tutti.topologies.exact import NONE, BoolArray, FloatArray, Int32Array, Int64Array, frozen
from tutti.topologies.kernels import now

if TYPE_CHECKING:
    import pyomo.environ as pyo
    from scipy.sparse import csr_array, csr_matrix


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """minimize or maximize cost x + offset, row_lower <= A x <= row_upper, lower <= x <= upper.

    Parameters
    ----------
    name
        The Pyomo model's.
    maximize
        The sense.
    cost, offset
        float64, one a column; a constant.
    starts, index, value
        A by rows (CSR): int32 (rows + 1,), int32 column numbers and float64 coefficients.
    row_lower, row_upper, lower, upper
        float64 bounds, infinite where there is none.
    integer
        bool, one a column.
    compile_s
        Seconds that it took.
    variables, constraints
        The Pyomo component of each column and each row; none where the matrix was written down directly.
    source
        The Pyomo model, without which its components would lose their names.
    """

    name: str
    maximize: bool
    cost: FloatArray
    offset: float
    starts: Int32Array
    index: Int32Array
    value: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    integer: BoolArray
    compile_s: float
    variables: tuple[Any, ...] = ()
    constraints: tuple[Any, ...] = ()
    source: Any = None

    @property
    def bare(self) -> CompiledModel:
        """The matrices without the Pyomo model, for another process or a file without names."""
        return replace(self, variables=(), constraints=(), source=None)

    @classmethod
    def of_matrix(
        cls,
        name: str,
        matrix: csr_array,
        cost: npt.ArrayLike,
        row_lower: npt.ArrayLike,
        row_upper: npt.ArrayLike,
        *,
        maximize: bool = False,
        begin: float | None = None,
    ) -> CompiledModel:
        """Return a linear program over x >= 0 whose matrix was written down directly.

        Parameters
        ----------
        name, maximize
            As in the class.
        matrix
            A, shape (rows, columns).
        cost
            One a column.
        row_lower, row_upper
            The bounds of A x; a number stands for all.
        begin
            `topologies.kernels.now()` when the work on the matrix began.
        """
        count, columns = matrix.shape
        sides = (row_lower, row_upper)
        below, above = (np.broadcast_to(np.asarray(side, dtype=np.float64), (count,)) for side in sides)
        return cls(
            name=name,
            maximize=maximize,
            cost=frozen(cost, np.float64),
            offset=0.0,
            starts=frozen(matrix.indptr, np.int32),
            index=frozen(matrix.indices, np.int32),
            value=frozen(matrix.data, np.float64),
            row_lower=frozen(below, np.float64),
            row_upper=frozen(above, np.float64),
            lower=frozen(np.zeros(columns), np.float64),
            upper=frozen(np.full(columns, np.inf), np.float64),
            integer=frozen(np.zeros(columns), np.bool_),
            compile_s=0.0 if begin is None else now() - begin,
        )

    @property
    def num_rows(self) -> int:
        """The number of constraints."""
        return len(self.row_lower)

    @property
    def num_columns(self) -> int:
        """The number of variables."""
        return len(self.lower)

    @property
    def num_nonzeros(self) -> int:
        """The number of nonzero coefficients in A."""
        return len(self.value)

    @property
    def sign(self) -> float:
        """-1 for a maximum, which solvers that only minimize solve as a minimum of the negative; else 1."""
        return -1.0 if self.maximize else 1.0

    def matrix(self) -> csr_matrix:
        """Return A."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self.value, self.index, self.starts), shape=(self.num_rows, self.num_columns))

    @property
    def features(self) -> frozenset[Feature]:
        """The features that a back-end needs for it."""
        return frozenset({Feature.MILP if self.integer.any() else Feature.LP})

    def orders(self, seed: int) -> tuple[Int64Array, Int64Array]:
        """Return an order of the rows and one of the columns, drawn from the seed; 0 keeps them."""
        if not seed:
            return np.arange(self.num_rows), np.arange(self.num_columns)
        rng = np.random.default_rng(seed)
        return rng.permutation(self.num_rows), rng.permutation(self.num_columns)

    def permuted(self, seed: int) -> CompiledModel:
        """Return the model with rows and columns in the `orders` of the seed: to compare solvers fairly."""
        if not seed:
            return self
        rows, columns = self.orders(seed)
        matrix = self.matrix()[rows][:, columns]
        matrix.sort_indices()
        by_row = {name: getattr(self, name)[rows] for name in ("row_lower", "row_upper")}
        by_column = {name: getattr(self, name)[columns] for name in ("cost", "lower", "upper", "integer")}
        return replace(
            self,
            **{name: frozen(array, array.dtype) for name, array in {**by_row, **by_column}.items()},
            starts=frozen(matrix.indptr, np.int32),
            index=frozen(matrix.indices, np.int32),
            value=frozen(matrix.data, np.float64),
            variables=tuple(self.variables[column] for column in columns) if self.variables else (),
            constraints=tuple(self.constraints[row] for row in rows) if self.constraints else (),
        )

    def place_of(self, component: Any) -> int:
        """Return the column of a Pyomo variable, or the row of a constraint.

        Raises
        ------
        InputError
            If it has none.
        """
        if id(component) not in self._places:
            raise InputError(
                f"model {self.name}: {component.name} is not among the compiled rows and columns"
            )
        return self._places[id(component)]

    @cached_property
    def _places(self) -> dict[int, int]:
        both = (self.variables, self.constraints)
        return {id(component): place for each in both for place, component in enumerate(each)}


class Rows:
    """Rows of a program; each must add up to 0 or more."""

    def __init__(self) -> None:
        self._terms: list[tuple[Int64Array, Int64Array, FloatArray]] = []
        self.count = 0

    def add(self, *terms: tuple[npt.ArrayLike, Int64Array]) -> int:
        """Add a row for each entry of the arrays of columns; a term has one factor, or one for each entry.

        Return the number of the first of these rows.
        """
        first, self.count = self.count, self.count + terms[0][1].size
        for factor, columns in terms:
            factors = np.broadcast_to(np.asarray(factor, dtype=np.float64), columns.size)
            self.extend(np.arange(first, self.count), factors, columns.ravel())
        return first

    def extend(self, rows: Int64Array, factors: FloatArray, columns: Int64Array) -> None:
        """Add terms to existing rows."""
        kept = columns != NONE
        self._terms.append((rows[kept], columns[kept], factors[kept]))

    def matrix(self, columns: int) -> csr_array:
        """Return their matrix."""
        from scipy.sparse import csr_array

        row, column, factor = (np.concatenate(parts) for parts in zip(*self._terms, strict=True))
        return csr_array((factor, (row, column)), shape=(self.count, columns))


def normalized(name: str, matrix: csr_array, value: FloatArray) -> CompiledModel:
    """Return the model that maximizes a value where every row is 0 or more, and the last one is 1."""
    above = np.append(np.full(matrix.shape[0] - 1, np.inf), 1.0)
    below = np.append(np.zeros(matrix.shape[0] - 1), 1.0)
    return CompiledModel.of_matrix(name, matrix, value, below, above, maximize=True)


def required_features(model: pyo.ConcreteModel) -> frozenset[Feature]:
    """Return the features that a back-end needs, by the variables alone, before anything is compiled."""
    from pyomo.core.base.var import Var

    variables = model.component_data_objects(Var, active=True)
    whole = any(not variable.is_continuous() and not variable.fixed for variable in variables)
    return frozenset({Feature.MILP if whole else Feature.LP})


def compile_model(model: pyo.ConcreteModel, *, declared_order: bool = False) -> CompiledModel:
    """Return the matrices of a linear Pyomo model with one objective.

    Parameters
    ----------
    model
        The model; its rows stand in the order in which the constraints are declared.
    declared_order
        Whether columns stand in the order in which the variables are declared; else in that in which the
        objective and the constraints name them.

    Raises
    ------
    Unsupported
        If it is not linear.
    InputError
        If it does not have one active objective, or Pyomo can't compile it.
    pyomo.common.errors.InfeasibleConstraintException
        If a constraint without variables does not hold.
    """
    import pyomo.environ as pyo  # slow to import, and not needed where matrices are made directly

    begin = now()
    objectives = list(model.component_data_objects(pyo.Objective, active=True))
    if len(objectives) != 1:
        raise InputError(f"model {model.name}: {len(objectives)} active objectives; exactly one is needed")
    form = _standard_form(model, declared_order=declared_order)
    columns = form.columns
    constraints, matrix, row_lower, row_upper = _rows(form)
    maximize, cost = objectives[0].sense == pyo.maximize, form.c.toarray()[0]
    plain = CompiledModel.of_matrix(model.name, matrix, cost, row_lower, row_upper, maximize=maximize)
    return replace(
        plain,
        offset=float(form.c_offset[0]),
        lower=_bounds([variable.lb for variable in columns], -np.inf),
        upper=_bounds([variable.ub for variable in columns], np.inf),
        integer=frozen([not v.is_continuous() for v in columns], np.bool_),
        variables=tuple(columns),
        constraints=constraints,
        compile_s=now() - begin,
        source=model,
    )


def _standard_form(model: pyo.ConcreteModel, *, declared_order: bool) -> Any:
    from pyomo.common.errors import InvalidExpressionError
    from pyomo.repn.plugins.standard_form import LinearStandardFormCompiler

    try:
        return LinearStandardFormCompiler().write(
            model, mixed_form=True, set_sense=None, column_order=declared_order
        )
    except InvalidExpressionError as error:
        text = " ".join(str(error).split())
        if "nonlinear" in text:
            raise Unsupported(f"model {model.name}: {text}") from error
        raise


def _rows(form: Any) -> tuple[tuple[Any, ...], csr_array, FloatArray, FloatArray]:
    """Return constraints, A and row bounds of Pyomo's mixed form.

    There a row has one right-hand side and a sense (0 equal, 1 at most, -1 at least), and a range has two
    rows, the upper one first; here it is one row.
    """
    senses = np.array([sense for _, sense in form.rows], dtype=np.int8)
    names = [id(constraint) for constraint, _ in form.rows]
    repeated = np.array([i > 0 and name == names[i - 1] for i, name in enumerate(names)], dtype=np.bool_)
    lower = np.where(senses <= 0, form.rhs, -np.inf)
    upper = np.where(senses >= 0, form.rhs, np.inf)
    lower[:-1][repeated[1:]] = lower[1:][repeated[1:]]
    kept = np.flatnonzero(~repeated)
    return tuple(form.rows[row][0] for row in kept), form.A.tocsr()[kept], lower[kept], upper[kept]


def _bounds(values: list[float | None], absent: float) -> FloatArray:
    result: FloatArray = frozen([absent if value is None else value for value in values], np.float64)
    return result
