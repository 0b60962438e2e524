//! Reads a domain's XML, within limits. quick-xml reads without recursion and expands no entity; a document type,
//! which could define some, is refused.

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::domain::disk::{self, Domain};

/// The largest document accepted, in bytes.
pub const MAX_DOCUMENT: u64 = 4 << 20;

const DEEPEST: usize = 64;

const MOST_ELEMENTS: usize = 65_536;

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
        read(xml).and_then(domain).map_err(|(at, what)| {
            let before = usize::try_from(at).ok().and_then(|at| xml.as_bytes().get(..at));
            let breaks = before.unwrap_or(xml.as_bytes()).iter().filter(|byte| **byte == b'\n').count();
            DomainError { line: u64::try_from(breaks).unwrap_or(u64::MAX).saturating_add(1), at, what }
        })
    }
}

/// Returns the root.
fn read(xml: &str) -> Result<Element, Wrong> {
    if u64::try_from(xml.len()).is_ok_and(|len| len > MAX_DOCUMENT) {
        return Err((MAX_DOCUMENT, format!("the document is longer than {MAX_DOCUMENT} bytes")));
    }
    let mut reader = Reader::from_str(xml);
    // The first is the document.
    let mut open = vec![Element::default()];
    let mut elements = 0;
    loop {
        let at = reader.buffer_position();
        let event = reader.read_event().map_err(|error| (reader.error_position(), error.to_string()))?;
        if let Event::Start(start) | Event::Empty(start) = &event {
            elements += 1;
            if open.len() > DEEPEST {
                return Err((at, format!("elements are nested more than {DEEPEST} levels deep")));
            }
            if elements > MOST_ELEMENTS {
                return Err((at, format!("the document has more than {MOST_ELEMENTS} elements")));
            }
            let attributes = attributes(start).map_err(|what| (at, what))?;
            open.push(Element {
                name: start.name().as_ref().to_owned(),
                at,
                attributes,
                ..Element::default()
            });
        }
        match event {
            Event::End(_) | Event::Empty(_) => {
                let ended = open.pop();
                if let Some(parent) = open.last_mut() {
                    parent.children.extend(ended);
                }
            }
            Event::Text(text) => add_text(&mut open, at, &text.xml10_content())?,
            Event::CData(text) => add_text(&mut open, at, &text.xml10_content())?,
            Event::GeneralRef(reference) => {
                let text = resolved(&reference).map_err(|what| (at, what))?;
                add_text(&mut open, at, &text)?;
            }
            Event::DocType(_) => {
                return Err((at, "a document type declaration (<!DOCTYPE>) is not allowed".to_owned()));
            }
            Event::Eof => break,
            Event::Start(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
    let end = reader.buffer_position();
    match open.as_mut_slice() {
        [document] if document.children.len() > 1 => {
            Err((document.children[1].at, "the document has a second root element".to_owned()))
        }
        [document] => document.children.pop().ok_or_else(|| (0, "the document is empty".to_owned())),
        [.., inner] => Err((end, format!("the document is truncated, because </{}> is missing", inner.name))),
        [] => Err((end, "the document is empty".to_owned())),
    }
}

fn add_text(open: &mut [Element], at: u64, text: &str) -> Result<(), Wrong> {
    if open.len() == 1 && !text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() {
        return Err((at, "not an XML document, because there is text outside the root element".to_owned()));
    }
    if let Some(element) = open.last_mut() {
        element.text.push_str(text);
    }
    Ok(())
}

fn domain(root: Element) -> Result<Domain, Wrong> {
    if root.name != "domain" {
        let what = format!("the root element is <{}>, but only <domain> is supported", root.name);
        return Err((root.at, what));
    }
    let name = root.child("name").map_or("", |name| name.text.trim()).to_owned();
    if name.is_empty() {
        return Err((root.at, "the domain has no <name>".to_owned()));
    }
    let kind = root.attribute("type").unwrap_or_default();
    let devices = root.child("devices").map_or(&[][..], |devices| &devices.children);
    let disks = devices.iter().filter(|device| device.name == "disk");
    let disks = disks.map(|disk| disk::read(disk, kind)).collect::<Result<_, _>>()?;
    Ok(Domain { is_running: root.attribute("id").is_some(), name, disks })
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
