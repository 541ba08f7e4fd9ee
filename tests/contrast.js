// The texts on a page whose contrast is below 4.5 (WCAG 2, level AA), each with its ratio.
() => {
  const parts = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const linear = (part) => (part <= 0.03928 * 255 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = parts(getComputedStyle(each).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const weak = [];
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest(".unseen, svg")) continue;
    const [one, other] = [parts(getComputedStyle(element).color), ground(element)].map(luminance);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) weak.push([texts.currentNode.data.trim().slice(0, 40), Math.round(ratio * 100) / 100]);
  }
  return weak;
}
