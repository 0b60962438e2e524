//! Reads a domain's XML, within limits. quick-xml reads without recursion and expands no entity; a document type,
//! which could define some, is refused.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::domain::disk::{self, Domain};

/// The largest document accepted, in bytes.
pub const MAX_DOCUMENT: u64 = 4 << 20;

const DEEPEST: usize = 64;

const MOST_DISKS: usize = 4096;

const MOST_ELEMENTS: usize = 1024;

type Wrong = (u64, String);

/// What is wrong with a domain's description, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} (byte {at}): {what}")]
pub struct DomainError {
    /// The line, from 1.
    pub line: u64,
    /// The byte, from 0.
    pub at: u64,
    /// What is wrong there.
    pub what: String,
}

straddle_units::error_kind!(DomainError: Failed);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) at: u64,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) children: Vec<Element>,
    pub(crate) text: String,
}

impl Element {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }
}

impl Domain {
    /// Reads a domain as `virsh dumpxml` prints it.
    pub fn parse(xml: &str) -> Result<Self, DomainError> {
        let read = Walk::default().read(xml).and_then(|walk| walk.domain());
        read.map_err(|(at, what)| {
            let before = usize::try_from(at).ok().and_then(|at| xml.as_bytes().get(..at));
            let breaks = before.unwrap_or(xml.as_bytes()).iter().filter(|byte| **byte == b'\n').count();
            DomainError { line: u64::try_from(breaks).unwrap_or(u64::MAX).saturating_add(1), at, what }
        })
    }
}

#[derive(Default)]
struct Walk {
    open: Vec<String>,
    /// Open elements of a disk, outermost first.
    kept: Vec<Element>,
    elements: usize,
    root: Option<Element>,
    name: String,
    disks: Vec<Element>,
}

impl Walk {
    fn read(mut self, xml: &str) -> Result<Self, Wrong> {
        if u64::try_from(xml.len()).is_ok_and(|len| len > MAX_DOCUMENT) {
            return Err((MAX_DOCUMENT, format!("the document is longer than {MAX_DOCUMENT} bytes")));
        }
        let mut reader = Reader::from_str(xml);
        loop {
            let at = reader.buffer_position();
            let event = reader.read_event().map_err(|error| (reader.error_position(), error.to_string()))?;
            match event {
                Event::Start(start) => self.enter(at, &start)?,
                Event::Empty(start) => {
                    self.enter(at, &start)?;
                    self.leave();
                }
                Event::End(_) => self.leave(),
                Event::Text(text) => self.text(at, &text.xml10_content())?,
                Event::CData(text) => self.text(at, &text.xml10_content())?,
                Event::GeneralRef(reference) => {
                    let text = resolved(&reference).map_err(|what| (at, what))?;
                    self.text(at, &text)?;
                }
                Event::DocType(_) => {
                    return Err((at, "a document type declaration (<!DOCTYPE>) is not allowed".to_owned()));
                }
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            }
        }
        match self.open.last() {
            Some(name) => Err((
                reader.buffer_position(),
                format!("the document is truncated, because </{name}> is missing"),
            )),
            None => Ok(self),
        }
    }

    fn enter(&mut self, at: u64, start: &BytesStart<'_>) -> Result<(), Wrong> {
        let name = start.name().as_ref().to_owned();
        if self.open.len() >= DEEPEST {
            return Err((at, format!("elements are nested more than {DEEPEST} levels deep")));
        }
        self.open.push(name.clone());
        let path: Vec<&str> = self.open.iter().map(String::as_str).collect();
        let is_root = path.len() == 1;
        let is_disk = path == ["domain", "devices", "disk"];
        if is_root && self.root.is_some() {
            return Err((at, "the document has a second root element".to_owned()));
        }
        if is_root && name != "domain" {
            return Err((at, format!("the root element is <{name}>, but only <domain> is supported")));
        }
        if is_disk && self.disks.len() >= MOST_DISKS {
            return Err((at, format!("the domain has more than {MOST_DISKS} disks")));
        }
        self.elements = if is_disk { 0 } else { self.elements + 1 };
        if !is_root && !is_disk && self.kept.is_empty() {
            return Ok(());
        }
        if self.elements >= MOST_ELEMENTS && !is_root {
            return Err((at, format!("a <disk> element contains more than {MOST_ELEMENTS} elements")));
        }
        let attributes = attributes(start).map_err(|what| (at, what))?;
        let element = Element { name, at, attributes, ..Element::default() };
        match is_root {
            true => self.root = Some(element),
            false => self.kept.push(element),
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.open.pop();
        let Some(element) = self.kept.pop() else { return };
        match self.kept.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.disks.push(element),
        }
    }

    fn text(&mut self, at: u64, text: &str) -> Result<(), Wrong> {
        if self.open.is_empty() && !text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() {
            return Err((
                at,
                "not an XML document, because there is text outside the root element".to_owned(),
            ));
        }
        if let Some(element) = self.kept.last_mut() {
            element.text.push_str(text);
        } else if self.open == ["domain", "name"] {
            self.name.push_str(text);
        }
        Ok(())
    }

    fn domain(self) -> Result<Domain, Wrong> {
        let root = self.root.ok_or_else(|| (0, "the document is empty".to_owned()))?;
        let name = self.name.trim().to_owned();
        if name.is_empty() {
            return Err((root.at, "the domain has no <name>".to_owned()));
        }
        let kind = root.attribute("type").unwrap_or_default();
        let disks = self.disks.iter().map(|element| disk::read(element, kind)).collect::<Result<_, _>>()?;
        Ok(Domain { is_running: root.attribute("id").is_some(), name, disks })
    }
}

fn attributes(start: &BytesStart<'_>) -> Result<Vec<(String, String)>, String> {
    start
        .attributes()
        .map(|attribute| {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value =
                attribute.normalized_value(XmlVersion::Explicit1_0).map_err(|error| error.to_string())?;
            Ok((attribute.key.as_ref().to_owned(), value.into_owned()))
        })
        .collect()
}

fn resolved(reference: &BytesRef<'_>) -> Result<String, String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.to_string());
    }
    let name = reference.xml10_content();
    let text = resolve_predefined_entity(&name).map(str::to_owned);
    text.ok_or_else(|| format!("the entity &{name}; is not defined"))
}

#[cfg(test)]
mod tests;
