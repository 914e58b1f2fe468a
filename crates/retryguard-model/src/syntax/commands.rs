//! Modules: their variables, commands and updates.

use super::ast::{Command, Module, ModuleBody, Name, Range, Update, Variable};
use super::lexer::Token;
use super::tokens::Tokens;
use crate::error::Error;

impl Tokens<'_> {
    /// After `module`.
    pub(crate) fn module(&mut self) -> Result<Module, Error> {
        let name = self.name("the name of a module")?;
        if self.take_sign("=") {
            return self.renamed_module(name);
        }
        let mut variables = Vec::new();
        let mut commands = Vec::new();
        loop {
            if self.take_word("endmodule") {
                break;
            }
            if self.is_sign("[") {
                commands.push(self.command()?);
            } else if self.is_word("invariant") {
                return Err(Error::at(
                    self.span(),
                    "`invariant` belongs to timed automata and is not supported",
                ));
            } else if matches!(self.peek(), Token::Word(_)) && *self.peek_second() == Token::Sign(":") {
                variables.push(self.variable()?);
            } else {
                return Err(self.unexpected("a variable, a command or `endmodule`"));
            }
        }
        Ok(Module {
            name,
            body: ModuleBody::Written { variables, commands },
        })
    }

    fn renamed_module(&mut self, name: Name) -> Result<Module, Error> {
        let base = self.name("the module to copy")?;
        self.expect_sign("[", "before the renaming")?;
        let mut renames = Vec::new();
        while !self.is_sign("]") {
            let from = self.name("the name to replace")?;
            self.expect_sign("=", "between the old and the new name")?;
            renames.push((from, self.name("the new name")?));
            if !self.take_sign(",") {
                break;
            }
        }
        self.expect_sign("]", "after the renaming")?;
        self.expect_word("endmodule", "after the renaming")?;
        Ok(Module {
            name,
            body: ModuleBody::Renamed { base, renames },
        })
    }

    /// `x : [0..5] init 1;` or `b : bool;`
    pub(crate) fn variable(&mut self) -> Result<Variable, Error> {
        let name = self.name("the name of a variable")?;
        self.expect_sign(":", "after the variable's name")?;
        let range = if self.take_word("bool") {
            Range::Bool
        } else if self.take_word("int") {
            Range::AnyInt
        } else if self.is_word("clock") || self.is_word("double") {
            return Err(Error::with_help(
                self.span(),
                format!("a variable of type {} is not supported", self.peek().describe()),
                "a state of a ctmc is made of whole numbers and truth values: write int, bool, or a range such as [0..100]",
            ));
        } else {
            self.expect_sign("[", "or `bool` as the type of the variable")?;
            let low = self.expression()?;
            self.expect_sign("..", "between the ends of the range")?;
            let high = self.expression()?;
            self.expect_sign("]", "after the range")?;
            Range::Int(low, high)
        };
        let init = if self.take_word("init") {
            Some(self.expression()?)
        } else {
            None
        };
        self.expect_sign(";", "after the variable")?;
        Ok(Variable { name, range, init })
    }

    /// `[action] guard -> rate : update + rate : update;`
    fn command(&mut self) -> Result<Command, Error> {
        let start = self.expect_sign("[", "before the action")?;
        let action = if self.is_sign("]") {
            None
        } else {
            Some(self.name("the name of an action")?)
        };
        self.expect_sign("]", "after the action")?;
        let guard = self.expression()?;
        self.expect_sign("->", "after the guard")?;
        let mut updates = vec![self.update()?];
        while self.take_sign("+") {
            updates.push(self.update()?);
        }
        let end = self.expect_sign(";", "after the command")?;
        Ok(Command {
            action,
            guard,
            updates,
            span: start.to(end),
        })
    }

    fn update(&mut self) -> Result<Update, Error> {
        let start = self.span();
        let rate = if self.is_assignments() {
            None
        } else {
            let rate = self.expression()?;
            self.expect_sign(":", "after the rate")?;
            Some(rate)
        };
        let mut assignments = Vec::new();
        if !(self.is_word("true") && self.next().0 == Token::Word("true".into())) {
            loop {
                assignments.push(self.assignment()?);
                if !self.take_sign("&") {
                    break;
                }
            }
        }
        Ok(Update {
            rate,
            assignments,
            span: start.to(self.last_span()),
        })
    }

    /// Whether the update starts here, or a rate that stands before it.
    fn is_assignments(&mut self) -> bool {
        let place = self.place();
        while self.take_sign("(") {}
        let assignment = matches!(self.peek(), Token::Word(_)) && *self.peek_second() == Token::Sign("'");
        self.rewind(place);
        let plain_true = self.is_word("true") && matches!(self.peek_second(), Token::Sign(";" | "+"));
        assignment || plain_true
    }

    fn assignment(&mut self) -> Result<(Name, super::ast::Expr), Error> {
        self.expect_sign("(", "before an assignment such as (x'=1)")?;
        let name = self.name("the variable to assign")?;
        self.expect_sign("'", "after the variable that is assigned")?;
        self.expect_sign("=", "in the assignment")?;
        let value = self.expression()?;
        self.expect_sign(")", "after the assignment")?;
        Ok((name, value))
    }
}
