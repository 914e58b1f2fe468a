//! The examples of every `--help`.

use clap::{CommandFactory as _, Parser as _};

use crate::Arguments;

/// Every example of every `--help` is a command that this program takes. Files and addresses need not exist.
#[test]
fn every_example_of_the_help_is_understood() {
    let mut commands = vec![Arguments::command()];
    let mut examples = 0;
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let Some(help) = command.get_after_help() else {
            continue;
        };
        for line in help.to_string().lines().map(str::trim) {
            let Some(rest) = line.strip_prefix("retryguard ") else {
                continue;
            };
            if let Err(error) = Arguments::try_parse_from(words(rest)) {
                panic!("`{line}` of `{} --help`: {error}", command.get_name());
            }
            examples += 1;
        }
    }
    assert!(examples > 20, "only {examples} examples were found");
}

/// The words of a command, up to a pipe, a redirection, the next command, or a remark after two spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = vec!["retryguard".to_owned(), String::new()];
    let mut quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            '|' | '>' | '&' if !quoted => break,
            ' ' if !quoted && words.last().is_some_and(String::is_empty) => break,
            ' ' if !quoted => words.push(String::new()),
            _ => {
                if let Some(word) = words.last_mut() {
                    word.push(letter);
                }
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
