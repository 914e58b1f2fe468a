//! The parts of a model file, in any order.

use super::ast::{Constant, Expr, Model, Name, RewardItem, RewardStructure, Synchronise, System, Type};
use super::lexer::Token;
use super::tokens::Tokens;
use crate::error::Error;

/// How many operators a `system` may have.
const MAX_COMPOSITIONS: usize = 1_000;

/// Reads a model file.
pub(crate) fn parse_model(text: &str) -> Result<Model, Error> {
    let mut tokens = Tokens::new(text, false)?;
    let mut model = Model::default();
    let mut kind = None;
    let mut systems: Vec<(Option<Name>, Option<System>)> = Vec::new();
    let text = |name: &Option<Name>| name.as_ref().map(|name| name.text.clone());
    loop {
        let span = tokens.span();
        let word = match tokens.peek() {
            Token::Word(word) => word.clone(),
            Token::End => break,
            _ => return Err(tokens.unexpected("a part of the model, such as `module`")),
        };
        match word.as_str() {
            "ctmc" | "stochastic" => {
                tokens.next();
                if kind.replace(span).is_some() {
                    return Err(Error::at(span, "the type of the model is given twice"));
                }
            }
            "dtmc" | "mdp" | "pta" | "popta" | "pomdp" | "probabilistic" | "nondeterministic" | "ma"
            | "smg" => {
                return Err(Error::with_help(
                    span,
                    format!(
                        "this checker answers questions about a `ctmc`, and this model is of the type `{word}`"
                    ),
                    "Storm (https://www.stormchecker.org) reads the same language and checks DTMCs, MDPs and Markov automata",
                ));
            }
            "const" | "rate" | "prob" => model.constants.push(tokens.constant()?),
            "formula" => model.formulas.push(tokens.formula()?),
            "label" => model.labels.push(tokens.label()?),
            "global" => {
                tokens.next();
                model.globals.push(tokens.variable()?);
            }
            "module" => {
                tokens.next();
                model.modules.push(tokens.module()?);
            }
            "rewards" => {
                tokens.next();
                model.rewards.push(tokens.rewards()?);
            }
            "init" => {
                tokens.next();
                let init = tokens.expression()?;
                tokens.expect_word("endinit", "after the initial states")?;
                if model.init.replace(init).is_some() {
                    return Err(Error::at(span, "a second `init` block"));
                }
            }
            "system" => {
                tokens.next();
                // A quotation alone is a composition made of another one.
                let name = match (tokens.peek(), tokens.peek_second()) {
                    (Token::Quoted(_), Token::Word(word)) if word == "endsystem" => None,
                    (Token::Quoted(_), Token::Word(_) | Token::Quoted(_) | Token::Sign("(")) => {
                        Some(tokens.quoted("the name of the composition")?)
                    }
                    _ => None,
                };
                let system = tokens.system()?;
                tokens.expect_word("endsystem", "after the composition")?;
                if systems
                    .iter()
                    .any(|(known, _): &(Option<Name>, _)| text(known) == text(&name))
                {
                    return Err(Error::at(
                        span,
                        "a second `system` block of this name, or without one",
                    ));
                }
                systems.push((name, Some(system)));
            }
            "observables" | "observable" | "invariant" => {
                return Err(Error::at(span, format!("`{word}` is not supported for a ctmc")));
            }
            _ => return Err(tokens.unexpected("a part of the model, such as `module`")),
        }
    }
    if kind.is_none() {
        tokens.rewind(0);
        return Err(Error::with_help(
            tokens.span(),
            "the type of the model is missing",
            "start the file with `ctmc`",
        ));
    }
    if model.modules.is_empty() {
        return Err(Error::at(tokens.span(), "the model has no module"));
    }
    // The one without a name is the model; without one, the first.
    let main = systems.iter().position(|(name, _)| name.is_none()).unwrap_or(0);
    if let Some(system) = systems.get_mut(main).and_then(|(_, system)| system.take()) {
        model.system = Some(put_in(system, &mut systems)?);
    }
    Ok(model)
}

/// The composition with each reference to another one replaced by it. Every module stands in it once, so no composition is put in twice.
fn put_in(system: System, others: &mut Vec<(Option<Name>, Option<System>)>) -> Result<System, Error> {
    Ok(match system {
        System::Module(name) => System::Module(name),
        System::Reference(name) => {
            let known = others
                .iter_mut()
                .find(|(known, _)| known.as_ref().is_some_and(|known| known.text == name.text));
            let Some((_, other)) = known else {
                return Err(Error::at(
                    name.span,
                    format!("there is no system \"{}\"", name.text),
                ));
            };
            let Some(other) = other.take() else {
                let reason = format!(
                    "the system \"{}\" stands twice in the composition, or in itself",
                    name.text
                );
                return Err(Error::at(name.span, reason));
            };
            put_in(other, others)?
        }
        System::Parallel(left, right, synchronise) => System::Parallel(
            Box::new(put_in(*left, others)?),
            Box::new(put_in(*right, others)?),
            synchronise,
        ),
        System::Hidden(inner, names) => System::Hidden(Box::new(put_in(*inner, others)?), names),
        System::Renamed(inner, renames) => System::Renamed(Box::new(put_in(*inner, others)?), renames),
    })
}

impl Tokens<'_> {
    /// `const int N = 5;`, `const double x;`, `const N;`, and the older `rate r = 2;`, `prob p;`
    pub(crate) fn constant(&mut self) -> Result<Constant, Error> {
        if !self.is_word("rate") && !self.is_word("prob") {
            self.expect_word("const", "before a constant")?;
        }
        let ty = match self.peek() {
            Token::Word(word) => match word.as_str() {
                "int" => Some(Type::Int),
                "double" | "rate" | "prob" => Some(Type::Double),
                "bool" => Some(Type::Bool),
                _ => None,
            },
            _ => None,
        };
        if ty.is_some() {
            self.next();
        }
        let name = self.name("the name of a constant")?;
        let value = if self.take_sign("=") {
            Some(self.expression()?)
        } else {
            None
        };
        self.expect_sign(";", "after the constant")?;
        Ok(Constant {
            name,
            ty: ty.unwrap_or(Type::Int),
            value,
        })
    }

    fn formula(&mut self) -> Result<(Name, Expr), Error> {
        self.expect_word("formula", "before a formula")?;
        let name = self.name("the name of a formula")?;
        self.expect_sign("=", "after the formula's name")?;
        let value = self.expression()?;
        self.expect_sign(";", "after the formula")?;
        Ok((name, value))
    }

    pub(crate) fn label(&mut self) -> Result<(Name, Expr), Error> {
        self.expect_word("label", "before a label")?;
        let name = self.quoted("the name of a label in quotation marks")?;
        self.expect_sign("=", "after the label's name")?;
        let value = self.expression()?;
        self.expect_sign(";", "after the label")?;
        Ok((name, value))
    }

    fn rewards(&mut self) -> Result<RewardStructure, Error> {
        let name = if matches!(self.peek(), Token::Quoted(_)) {
            Some(self.quoted("the name of the reward")?)
        } else {
            None
        };
        let mut items = Vec::new();
        while !self.take_word("endrewards") {
            let action = if self.take_sign("[") {
                let action = if self.is_sign("]") {
                    None
                } else {
                    Some(self.name("the name of an action")?)
                };
                self.expect_sign("]", "after the action")?;
                Some(action)
            } else {
                None
            };
            let guard = self.expression()?;
            self.expect_sign(":", "between the states and their reward")?;
            let value = self.expression()?;
            self.expect_sign(";", "after the reward, or `endrewards`")?;
            items.push(RewardItem { action, guard, value });
        }
        Ok(RewardStructure { name, items })
    }

    /// `||` binds least, then `|||`, then `|[…]|`: the manual leaves it open, PRISM's own reader does not.
    fn system(&mut self) -> Result<System, Error> {
        let mut left = self.interleaved()?;
        while self.take_sign("||") {
            let right = self.interleaved()?;
            left = self.composed(System::Parallel(
                Box::new(left),
                Box::new(right),
                Synchronise::Shared,
            ))?;
        }
        Ok(left)
    }

    fn interleaved(&mut self) -> Result<System, Error> {
        let mut left = self.synchronised()?;
        while self.take_sign("|||") {
            let right = self.synchronised()?;
            left = self.composed(System::Parallel(
                Box::new(left),
                Box::new(right),
                Synchronise::Nothing,
            ))?;
        }
        Ok(left)
    }

    fn synchronised(&mut self) -> Result<System, Error> {
        let mut left = self.relabelled()?;
        while self.take_sign("|[") {
            let mut names = vec![self.name("the name of an action")?];
            while self.take_sign(",") {
                names.push(self.name("the name of an action")?);
            }
            self.expect_sign("]|", "after the actions")?;
            let right = self.relabelled()?;
            let named = Synchronise::Named(names);
            left = self.composed(System::Parallel(Box::new(left), Box::new(right), named))?;
        }
        Ok(left)
    }

    /// A module or a composition in parentheses, with actions hidden (`/{a,b}`) or renamed (`{a<-b}`).
    fn relabelled(&mut self) -> Result<System, Error> {
        let mut inner = self.system_operand()?;
        loop {
            if self.take_sign("/") {
                self.expect_sign("{", "before the actions to hide")?;
                let mut names = vec![self.name("the name of an action")?];
                while self.take_sign(",") {
                    names.push(self.name("the name of an action")?);
                }
                inner = self.composed(System::Hidden(Box::new(inner), names))?;
            } else if self.take_sign("{") {
                let mut renames = vec![self.action_rename()?];
                while self.take_sign(",") {
                    renames.push(self.action_rename()?);
                }
                inner = self.composed(System::Renamed(Box::new(inner), renames))?;
            } else {
                return Ok(inner);
            }
            self.expect_sign("}", "after the actions")?;
        }
    }

    /// Counts the operators of a composition, which is walked one within the other.
    fn composed(&mut self, system: System) -> Result<System, Error> {
        self.compositions += 1;
        if self.compositions > MAX_COMPOSITIONS {
            return Err(Error::at(
                self.last_span(),
                format!("a `system` of more than {MAX_COMPOSITIONS} operators"),
            ));
        }
        Ok(system)
    }

    fn action_rename(&mut self) -> Result<(Name, Name), Error> {
        let from = self.name("the action to rename")?;
        self.expect_sign("<-", "between the old and the new name")?;
        Ok((from, self.name("the new name of the action")?))
    }

    fn system_operand(&mut self) -> Result<System, Error> {
        if self.take_sign("(") {
            let inner = self.deeper(Self::system)?;
            self.expect_sign(")", "to close this parenthesis")?;
            return Ok(inner);
        }
        if matches!(self.peek(), Token::Quoted(_)) {
            return Ok(System::Reference(self.quoted("the name of a composition")?));
        }
        Ok(System::Module(self.name("the name of a module")?))
    }
}
