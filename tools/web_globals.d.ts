// For `make types-web` alone: what every element of the pages has, whether of HTML or of SVG.
interface Element {
  readonly dataset: DOMStringMap;
  focus(options?: FocusOptions): void;
}
