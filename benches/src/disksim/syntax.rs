//! DiskSim's parameter syntax: blocks of `key = value` pairs, lists, comments, and `source FILE` in place of
//! a value. Any text gives a tree or an error with its line; depth and size are bounded.

use std::fmt;

const DEEPEST: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Number(f64),
    /// Any other words, such as the name of an option or a file.
    Word(String),
    /// `source FILE`: the value is the block in that file.
    Source(String),
    /// `[ a, b, … ]`.
    List(Vec<Located>),
    /// `type name { … }`.
    Block(Block),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) pairs: Vec<(String, Located)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => formatter.write_str(word),
            Token::Mark(mark) => write!(formatter, "{mark}"),
        }
    }
}

struct Tokens<'a> {
    tokens: Vec<(usize, Token<'a>)>,
    next: usize,
    depth: usize,
}

const fn is_mark(letter: char) -> bool {
    matches!(letter, '{' | '}' | '[' | ']' | ',' | '=')
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut rest = line.split('#').next().unwrap_or_default().trim_start();
            while let Some(letter) = rest.chars().next() {
                let taken = if is_mark(letter) {
                    tokens.push((index + 1, Token::Mark(letter)));
                    letter.len_utf8()
                } else {
                    let end = rest
                        .find(|letter: char| letter.is_whitespace() || is_mark(letter))
                        .unwrap_or(rest.len());
                    tokens.push((index + 1, Token::Word(&rest[..end])));
                    end
                };
                rest = rest[taken..].trim_start();
            }
        }
        Self { tokens, next: 0, depth: 0 }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).map(|(_, token)| *token)
    }

    /// The line of the next token, or of the last one at the end of the text.
    fn line(&self) -> usize {
        self.tokens.get(self.next).or(self.tokens.last()).map_or(1, |(line, _)| *line)
    }

    fn fail<T>(&self, message: impl Into<String>) -> Result<T, SyntaxError> {
        Err(SyntaxError { line: self.line(), message: message.into() })
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T, SyntaxError> {
        match self.peek() {
            Some(token) => {
                self.fail(format!("found {token:?} instead of {wanted}", token = token.to_string()))
            }
            None => self.fail(format!("the file ends before {wanted}")),
        }
    }

    fn eat(&mut self, mark: char) -> bool {
        let there = self.peek() == Some(Token::Mark(mark));
        self.next += usize::from(there);
        there
    }

    fn expect(&mut self, mark: char) -> Result<(), SyntaxError> {
        if self.eat(mark) { Ok(()) } else { self.unexpected(&format!("{mark:?}")) }
    }

    fn words(&mut self) -> Vec<&'a str> {
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word);
            self.next += 1;
        }
        words
    }

    fn deeper(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST { self.fail(format!("nested more than {DEEPEST} deep")) } else { Ok(()) }
    }

    fn value(&mut self) -> Result<Located, SyntaxError> {
        let line = self.line();
        if self.eat('[') {
            let value = Value::List(self.list()?);
            return Ok(Located { line, value });
        }
        let words = self.words();
        let value = match (&words[..], self.peek()) {
            ([], _) => return self.unexpected("a value"),
            (_, Some(Token::Mark('{'))) => Value::Block(self.block(line, &words)?),
            (["source", file], _) => Value::Source((*file).to_owned()),
            ([word], _) => match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => Value::Word((*word).to_owned()),
            },
            _ => Value::Word(words.join(" ")),
        };
        Ok(Located { line, value })
    }

    /// Parses the rest of a list, after `[` and up to `]`.
    fn list(&mut self) -> Result<Vec<Located>, SyntaxError> {
        self.deeper()?;
        let mut values = Vec::new();
        while !self.eat(']') {
            values.push(self.value()?);
            if !self.eat(',') && self.peek() != Some(Token::Mark(']')) {
                return self.unexpected("',' or ']'");
            }
        }
        self.depth -= 1;
        Ok(values)
    }

    /// Parses a block's braces and their contents; `words` came before the `{`.
    fn block(&mut self, line: usize, words: &[&str]) -> Result<Block, SyntaxError> {
        self.deeper()?;
        self.expect('{')?;
        let (kind, name) =
            words.split_first().map_or_else(Default::default, |(kind, name)| (*kind, name.join(" ")));
        let mut pairs = Vec::new();
        while !self.eat('}') {
            let key = self.words().join(" ");
            if key.is_empty() {
                return self.unexpected("a key or '}'");
            }
            self.expect('=')?;
            pairs.push((key, self.value()?));
            if !self.eat(',') && self.peek() != Some(Token::Mark('}')) {
                return self.unexpected("',' or '}'");
            }
        }
        self.depth -= 1;
        Ok(Block { kind: kind.to_owned(), name, line, pairs })
    }

    /// Skips a bracketed part whose contents are not needed.
    fn skip_brackets(&mut self) -> Result<(), SyntaxError> {
        let mut open = 0_usize;
        loop {
            match self.peek() {
                None => return self.unexpected("']'"),
                Some(Token::Mark('[')) => open += 1,
                Some(Token::Mark(']')) => open = open.saturating_sub(1),
                Some(_) => {}
            }
            self.next += 1;
            if open == 0 {
                return Ok(());
            }
        }
    }
}

/// Parses the blocks of a file, and skips its other statements (`instantiate`, `topology`, `source`).
pub(super) fn blocks(text: &str) -> Result<Vec<Block>, SyntaxError> {
    let mut tokens = Tokens::of(text);
    let mut blocks = Vec::new();
    while tokens.peek().is_some() {
        let line = tokens.line();
        let words = tokens.words();
        match (&words[..], tokens.peek()) {
            ([_, ..], Some(Token::Mark('{'))) => {
                // `source FILE` has no terminator, so the words before this brace may begin with it.
                let own = if let ["source", _, own @ ..] = &words[..] { own } else { &words[..] };
                let own = if let ["as", _, own @ ..] = own { own } else { own };
                blocks.push(tokens.block(line, own)?);
            }
            ([_, ..], Some(Token::Mark('['))) => tokens.skip_brackets()?,
            ([_, ..], None) => {}
            _ => return tokens.unexpected("a block"),
        }
    }
    Ok(blocks)
}

/// The files that a file's own `source FILE` statements name, outside blocks, each with its line.
pub(super) fn sources(text: &str) -> Result<Vec<(usize, String)>, SyntaxError> {
    let mut tokens = Tokens::of(text);
    let mut named = Vec::new();
    while tokens.peek().is_some() {
        let from = tokens.next;
        let words = tokens.words();
        // The statement has no terminator, so the words before a bracket may contain several.
        for (index, pair) in words.windows(2).enumerate() {
            let is_name = index > 0 && words[index - 1] == "source";
            if pair[0] == "source" && !is_name {
                named.push((tokens.tokens[from + index].0, pair[1].to_owned()));
            }
        }
        let line = tokens.line();
        match tokens.peek() {
            Some(Token::Mark('{')) => drop(tokens.block(line, &["block"])?),
            Some(Token::Mark('[')) => tokens.skip_brackets()?,
            Some(_) => return tokens.unexpected("a block"),
            None => {}
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lists_and_comments_are_read() {
        let text = "# a drive\nkind Name {\n  Head switch time = 0.5, # ms\n  Model = source \
                    x.model,\n  Zones = [ zone { A = 1 }, 2 ],\n  Seek type = extracted }\ninstantiate [ a ] \
                    as B\ntopology x y [ z [ ] ]\nsource q.spec\nlast L { }";
        let blocks = blocks(text).unwrap();
        assert_eq!(blocks.len(), 2);
        let first = &blocks[0];
        assert_eq!((first.kind.as_str(), first.name.as_str(), first.line), ("kind", "Name", 2));
        assert_eq!(
            first.pairs[0],
            ("Head switch time".to_owned(), Located { line: 3, value: Value::Number(0.5) })
        );
        assert_eq!(first.pairs[1].1.value, Value::Source("x.model".to_owned()));
        assert!(matches!(&first.pairs[2].1.value, Value::List(values) if values.len() == 2));
        assert_eq!(first.pairs[3].1.value, Value::Word("extracted".to_owned()));
        assert_eq!(blocks[1].kind, "last");
    }

    #[test]
    fn errors_name_their_line() {
        for (text, line) in
            [("a b {\n x 1 }", 2), ("a {\n\n", 1), ("a { x = [ 1 2 ", 1), ("}", 1), ("a { x = }", 1)]
        {
            assert_eq!(blocks(text).unwrap_err().line, line, "{text}");
        }
        assert!(blocks(&"a { x = ".repeat(10_000)).unwrap_err().message.contains("deep"));
    }
}
