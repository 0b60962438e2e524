//! Whether a page can be read at some width, as a browser lays it out.

/// Judges the page in the frame: text of less than 12 px, labels of a chart on each other, and what is wider than
/// the page and does not scroll by itself.
const SCRIPT: &str = r#"
addEventListener('load', () => {
  const page = frames[0].document, wide = page.documentElement.clientWidth, wrong = new Set(), seen = new Set();
  const name = (element) => element.tagName + ' ' + element.textContent.trim().slice(0, 40);
  for (const element of page.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    const isShown = box.width > 1 && box.height > 1 && element.checkVisibility();
    if (!isShown || ['TITLE', 'STYLE', 'SCRIPT'].includes(element.tagName.toUpperCase())) continue;
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (own.length) {
      const scale = element.getScreenCTM ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
      const size = parseFloat(frames[0].getComputedStyle(element).fontSize) * scale;
      if (size < 11.9) wrong.add(size.toFixed(1) + ' px: ' + name(element));
      seen.add('text');
    }
    if (box.right > wide + 1 && !element.closest('.scroll, pre')) wrong.add('too wide: ' + name(element));
  }
  for (const chart of page.querySelectorAll('svg')) {
    const texts = [...chart.querySelectorAll('text')].filter((text) => text.checkVisibility());
    const boxes = texts.map((text) => [text, text.getBoundingClientRect()]);
    if (texts.length) seen.add('chart');
    for (const [index, [one, a]] of boxes.entries()) {
      if (a.right > wide + 1 || a.left < -1) wrong.add('outside: ' + name(one));
      for (const [other, b] of boxes.slice(index + 1)) {
        const over = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (over > 1 && high > 4) wrong.add('on each other: ' + one.textContent + ' | ' + other.textContent);
      }
    }
  }
  document.body.innerHTML = '';
  const found = document.body.appendChild(document.createElement('pre'));
  found.textContent = 'SEEN ' + [...seen].sort().join(' ') + '\nWRONG ' + [...wrong].join('\nWRONG ') + '\nEND';
});
"#;

/// Returns a page that holds `page` in a frame of this width and judges it. A browser's `--dump-dom` of it is for
/// [`verdict`].
pub(crate) fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><body><iframe srcdoc=\"{page}\" style=\"border:0;width:{width}px;height:3000px\"></iframe><script>{SCRIPT}</script>"
    )
}

/// Returns what was looked at, and what is wrong with it.
pub(crate) fn verdict(dom: &str) -> (String, Vec<String>) {
    let Some((_, found)) = dom.split_once("<pre>SEEN ") else { return (String::new(), vec![dom.to_owned()]) };
    let found = found.split_once("\nEND").map_or(found, |(found, _)| found);
    let mut parts = found.split("\nWRONG ").map(str::to_owned);
    let seen = parts.next().unwrap_or_default();
    (seen, parts.filter(|part| !part.is_empty()).collect())
}
