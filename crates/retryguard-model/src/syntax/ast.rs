//! The tree of a model and of a property, with the place of everything that an error may have to name.

use crate::source::Span;

/// A name and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Int,
    Double,
    Bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    /// The height of the tree: what walks it recurses this deep, so the parser bounds it.
    pub(crate) height: usize,
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, span: Span) -> Expr {
        let height = match &kind {
            ExprKind::Not(a) | ExprKind::Minus(a) => a.height,
            ExprKind::Binary(_, a, b) => a.height.max(b.height),
            ExprKind::IfThenElse(a, b, c) => a.height.max(b.height).max(c.height),
            ExprKind::Call(_, arguments) => arguments.iter().map(|a| a.height).max().unwrap_or(0),
            ExprKind::Path(path) => path.operands().iter().map(|a| a.height).max().unwrap_or(0),
            _ => 0,
        };
        Expr {
            kind,
            span,
            height: height + 1,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Int(i64),
    Real(f64),
    Bool(bool),
    Name(String),
    /// `"label"`, in properties only.
    Label(String),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    IfThenElse(Box<Expr>, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    /// `P`, `R` or `S`, in properties only.
    Query(Box<Query>),
    /// `E [ … ]` (true) or `A [ … ]` (false), in properties only.
    Branching(bool, Box<Expr>),
    /// A path operator with its operands, within the brackets of `P`, `E` and `A` only.
    Path(Box<Path>),
    /// `filter(kind, of, states)`, in properties only.
    Filter(Box<Filter>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Implies,
    Iff,
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Min,
    Max,
    Floor,
    Ceil,
    Round,
    Pow,
    Mod,
    Log,
}

/// A quantitative or qualitative question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) operator: Operator,
    /// `None` is `=?`.
    pub(crate) bound: Option<(Binary, Expr)>,
}

/// The states whose answers make the answer; without a filter, the initial ones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    pub(crate) kind: FilterKind,
    pub(crate) of: Expr,
    pub(crate) states: Expr,
}

/// What is made of the answers of several states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterKind {
    /// The answer of the only one.
    State,
    Min,
    Max,
    Range,
    Sum,
    Average,
    /// The answer of the first one, in the order of the values of the variables.
    First,
    /// The states with the least answer.
    ArgMin,
    ArgMax,
    ForAll,
    Exists,
    Count,
    /// The states whose answer is not 0 or false, each with its answer.
    Print,
    PrintAll,
}

impl FilterKind {
    pub(crate) const ALL: &[(&str, FilterKind)] = &[
        ("state", FilterKind::State),
        ("min", FilterKind::Min),
        ("max", FilterKind::Max),
        ("range", FilterKind::Range),
        ("sum", FilterKind::Sum),
        ("avg", FilterKind::Average),
        ("first", FilterKind::First),
        ("argmin", FilterKind::ArgMin),
        ("argmax", FilterKind::ArgMax),
        ("forall", FilterKind::ForAll),
        ("exists", FilterKind::Exists),
        ("count", FilterKind::Count),
        ("print", FilterKind::Print),
        ("printall", FilterKind::PrintAll),
    ];

    /// The name by which it is written.
    pub(crate) fn name(self) -> &'static str {
        let found = FilterKind::ALL.iter().find(|(_, kind)| *kind == self);
        found.map_or("filter", |(name, _)| name)
    }

    /// Whether it is about yes and no (true), about numbers (false), or about either.
    pub(crate) fn of_truths(self) -> Option<bool> {
        match self {
            FilterKind::ForAll | FilterKind::Exists | FilterKind::Count => Some(true),
            FilterKind::State | FilterKind::First | FilterKind::Print | FilterKind::PrintAll => None,
            _ => Some(false),
        }
    }

    /// Whether it names states, and so needs the values of their variables.
    pub(crate) fn names_states(self) -> bool {
        matches!(
            self,
            FilterKind::First
                | FilterKind::ArgMin
                | FilterKind::ArgMax
                | FilterKind::Print
                | FilterKind::PrintAll
        )
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operator {
    /// The path: an expression that may have path operators in it.
    Probability(Expr),
    Reward(Option<RewardName>, RewardPath),
    Steady(Expr),
}

/// A reward structure is named by its label or by its place, counted from one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RewardName {
    Label(Name),
    Place(i64, Span),
}

/// A path operator. Its operands are conditions on states, or have path operators of their own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Path {
    Next(Expr, TimeBound),
    Finally(Expr, TimeBound),
    Globally(Expr, TimeBound),
    Until(Expr, Expr, TimeBound),
    /// `a W b`: a until b, or a for ever.
    Weak(Expr, Expr, TimeBound),
    /// `a R b`: b up to and with the first a, or b for ever.
    Release(Expr, Expr, TimeBound),
}

impl Path {
    pub(crate) fn operands(&self) -> Vec<&Expr> {
        match self {
            Path::Next(a, _) | Path::Finally(a, _) | Path::Globally(a, _) => vec![a],
            Path::Until(a, b, _) | Path::Weak(a, b, _) | Path::Release(a, b, _) => vec![a, b],
        }
    }

    pub(crate) fn bound(&self) -> &TimeBound {
        match self {
            Path::Next(_, bound) | Path::Finally(_, bound) | Path::Globally(_, bound) => bound,
            Path::Until(_, _, bound) | Path::Weak(_, _, bound) | Path::Release(_, _, bound) => bound,
        }
    }

    /// The operator as it is written.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Path::Next(..) => "X",
            Path::Finally(..) => "F",
            Path::Globally(..) => "G",
            Path::Until(..) => "U",
            Path::Weak(..) => "W",
            Path::Release(..) => "R",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TimeBound {
    pub(crate) lower: Option<Expr>,
    pub(crate) upper: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RewardPath {
    /// Up to the moment at which a path is fulfilled, such as `F x=1`.
    Path(Expr),
    /// `C`: all that is ever earned.
    Total,
    Cumulative(Expr),
    Instant(Expr),
    Steady,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Property {
    pub(crate) name: Option<String>,
    pub(crate) formula: Expr,
    pub(crate) text: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PropertyFile {
    pub(crate) constants: Vec<Constant>,
    pub(crate) labels: Vec<(Name, Expr)>,
    pub(crate) properties: Vec<Property>,
    /// Properties that could not be read: how many stand before each, its text, and why.
    pub(crate) refused: Vec<(usize, String, crate::error::Error)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constant {
    pub(crate) name: Name,
    pub(crate) ty: Type,
    pub(crate) value: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variable {
    pub(crate) name: Name,
    pub(crate) range: Range,
    pub(crate) init: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Range {
    Bool,
    Int(Expr, Expr),
    /// `int`, without a range.
    AnyInt,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Module {
    pub(crate) name: Name,
    pub(crate) body: ModuleBody,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ModuleBody {
    Written {
        variables: Vec<Variable>,
        commands: Vec<Command>,
    },
    Renamed {
        base: Name,
        renames: Vec<(Name, Name)>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Command {
    pub(crate) action: Option<Name>,
    pub(crate) guard: Expr,
    pub(crate) updates: Vec<Update>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    /// `None` is the rate 1.
    pub(crate) rate: Option<Expr>,
    pub(crate) assignments: Vec<(Name, Expr)>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RewardStructure {
    pub(crate) name: Option<Name>,
    pub(crate) items: Vec<RewardItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RewardItem {
    /// `None`: a state reward; `Some(None)`: transitions without an action; `Some(Some(a))`: those of `a`.
    pub(crate) action: Option<Option<Name>>,
    pub(crate) guard: Expr,
    pub(crate) value: Expr,
}

/// How modules are put together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum System {
    Module(Name),
    /// `"name"`: another composition; the reader puts it in.
    Reference(Name),
    /// `||`: on every shared action; `|||`: on none; `|[…]|`: on those named.
    Parallel(Box<System>, Box<System>, Synchronise),
    /// `/{a,b}`: the actions no longer synchronise with other modules.
    Hidden(Box<System>, Vec<Name>),
    /// `{a<-b}`: what was called `a` is called `b`.
    Renamed(Box<System>, Vec<(Name, Name)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Synchronise {
    Shared,
    Nothing,
    Named(Vec<Name>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    pub(crate) constants: Vec<Constant>,
    pub(crate) formulas: Vec<(Name, Expr)>,
    pub(crate) labels: Vec<(Name, Expr)>,
    pub(crate) globals: Vec<Variable>,
    pub(crate) modules: Vec<Module>,
    pub(crate) rewards: Vec<RewardStructure>,
    pub(crate) init: Option<Expr>,
    pub(crate) system: Option<System>,
}
