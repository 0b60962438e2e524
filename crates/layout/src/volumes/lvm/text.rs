//! A parser for LVM's metadata text (libdm/libdm-config.c): one pass, no recursion, bounded lists.

/// LVM allows fewer stripes or images.
const MAX_LIST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Text(&'a str),
    List(Vec<Value<'a>>),
    /// Negative, fractional, or larger than 64 bits.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// `name {`
    Open(&'a str),
    /// `name = value`
    Set(&'a str, Value<'a>),
    /// `}`
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) expected: &'static str,
}

/// Callers stop at the first error.
pub(super) struct Events<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Events<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn error<T>(&self, expected: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.at, expected })
    }

    /// With comments, and zero bytes that pad the text.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\0');
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn take_while(&mut self, belongs: fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let word = &rest[..rest.find(|c| !belongs(c)).unwrap_or(rest.len())];
        self.at += word.len();
        word
    }

    fn scalar(&mut self) -> Result<Value<'a>, SyntaxError> {
        let quote = self.rest().chars().next();
        if let Some(quote) = quote.filter(|c| matches!(c, '"' | '\'')) {
            self.at += 1;
            let text = self.rest();
            let mut escaped = false;
            let end = text.find(|c| {
                let ends = c == quote && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let Some(end) = end else { return self.error("the end of a string") };
            self.at += end + 1;
            return Ok(Value::Text(&text[..end]));
        }
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.' | '@' | '_'));
        if word.is_empty() {
            return self.error("a value");
        }
        Ok(word.parse().map_or(Value::Other, Value::Number))
    }

    fn value(&mut self) -> Result<Value<'a>, SyntaxError> {
        if !self.take('[') {
            return self.scalar();
        }
        let mut list = Vec::new();
        loop {
            self.skip_blanks();
            if self.take(']') {
                return Ok(Value::List(list));
            }
            let value = self.scalar()?;
            if list.len() < MAX_LIST {
                list.push(value);
            }
            self.skip_blanks();
            if !self.take(',') && !self.rest().starts_with(']') {
                return self.error("a comma or ]");
            }
        }
    }

    fn event(&mut self) -> Result<Option<Event<'a>>, SyntaxError> {
        self.skip_blanks();
        if self.rest().is_empty() {
            return Ok(None);
        }
        if self.take('}') {
            return Ok(Some(Event::Close));
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '/'));
        if name.is_empty() {
            return self.error("a name");
        }
        self.skip_blanks();
        if self.take('{') {
            return Ok(Some(Event::Open(name)));
        }
        if !self.take('=') {
            return self.error("= or {");
        }
        self.skip_blanks();
        Ok(Some(Event::Set(name, self.value()?)))
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Result<Event<'a>, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.event().transpose()
    }
}
