// The editor of statements: CodeMirror in a shadow root, where its styles are adopted sheets, so
// that the page's policy need not allow any inline ones.

import { autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql, type SQLNamespace } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import type { Place, Problem } from "./api";
import { at, type Part } from "./statements";

const KEYWORDS =
  "all alter and any array as asc between both by case cast create cross current_date current_time " +
  "current_timestamp cube deallocate desc describe distinct drop else end escape except execute exists explain " +
  "extract false fetch filter first following for from full group grouping having if ignore in inner insert " +
  "intersect interval into is join last lateral leading left like limit localtime localtimestamp natural next not " +
  "null nulls of offset on only or order outer over partition preceding prepare range recursive respect right " +
  "rollup row rows select session set sets show some symmetric system table tablesample then ties time timestamp " +
  "to trailing true try_cast unbounded union unnest use using values version view when where window with within";
const TYPES =
  "bigint boolean char date decimal double integer json map real smallint time timestamp tinyint uuid " +
  "varbinary varchar";

const look = HighlightStyle.define([
  { tag: tags.keyword, class: "tok-keyword" },
  { tag: tags.typeName, class: "tok-type" },
  { tag: tags.standard(tags.name), class: "tok-function" },
  { tag: [tags.string, tags.special(tags.string)], class: "tok-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "tok-number" },
  { tag: [tags.lineComment, tags.blockComment], class: "tok-comment" },
]);

const theme = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface)" },
  "&.cm-focused, .cm-content": { outline: "none" }, // the box around it shows the focus
  ".cm-scroller": { fontFamily: "var(--mono)", fontSize: "13.5px", lineHeight: "1.55" },
  ".cm-gutters": { color: "var(--muted)", backgroundColor: "var(--surface)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--hover)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-selectionMatch": { backgroundColor: "var(--selection)" },
  ".cm-placeholder": { color: "var(--muted)" },
  ".cm-tooltip": { color: "var(--text)", backgroundColor: "var(--raised)", border: "1px solid var(--line)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { color: "var(--on-accent)", backgroundColor: "var(--accent)" },
  ".cm-panels": { color: "var(--text)", backgroundColor: "var(--raised)" },
  ".cm-lintRange-error": {
    backgroundImage: "none",
    textDecoration: "underline wavy var(--bad)",
    textUnderlineOffset: "3px",
  },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".tok-keyword": { color: "var(--keyword)", fontWeight: "600" },
  ".tok-type": { color: "var(--type)" },
  ".tok-function": { color: "var(--function)" },
  ".tok-string": { color: "var(--string)" },
  ".tok-number": { color: "var(--number)" },
  ".tok-comment": { color: "var(--muted)", fontStyle: "italic" },
});

const DRAFT = "seamline.draft";

export interface Names {
  tables: SQLNamespace;
  functions: string[];
  schema: string;
}

export class Editor {
  readonly element = document.createElement("div");
  private readonly view: EditorView;
  private readonly language = new Compartment();

  constructor(onRun: () => void, onExplain: () => void) {
    this.element.className = "editor";
    const root = this.element.attachShadow({ mode: "open" });
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: localStorage.getItem(DRAFT) ?? "",
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          closeBrackets(),
          autocompletion(),
          highlightActiveLine(),
          highlightSelectionMatches(),
          lintGutter(),
          placeholder("SELECT …   runs with Ctrl+Enter"),
          syntaxHighlighting(look),
          theme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Statement" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) localStorage.setItem(DRAFT, this.text);
          }),
          this.language.of(sql({ dialect: dialect([]), upperCaseKeywords: true })),
          keymap.of([
            { key: "Mod-Enter", run: () => (onRun(), true) },
            { key: "Mod-Shift-Enter", run: () => (onExplain(), true) },
            ...closeBracketsKeymap,
            ...completionKeymap,
            ...searchKeymap,
            ...historyKeymap,
            ...defaultKeymap, // Tab leaves the editor, as everywhere on a page
          ]),
        ],
      }),
    });
  }

  get text(): string {
    return this.view.state.doc.toString();
  }

  set text(text: string) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** What is selected, or the statement that the cursor is in. */
  get current(): Part | undefined {
    const { from, to, head } = this.view.state.selection.main;
    const selected = this.view.state.sliceDoc(from, to);
    if (!selected.trim()) return at(this.text, head);
    const start = from + selected.length - selected.trimStart().length;
    return { text: selected.trim().replace(/;$/, ""), from: start, to };
  }

  complete(names: Names): void {
    const language = sql({
      dialect: dialect(names.functions),
      schema: names.tables,
      defaultSchema: names.schema,
      upperCaseKeywords: true,
    });
    this.view.dispatch({ effects: this.language.reconfigure(language) });
  }

  insert(text: string): void {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.focus();
  }

  focus(): void {
    this.view.focus();
  }

  /** Takes away what it says of the text: errors, and names that would complete it. */
  clear(): void {
    closeCompletion(this.view);
    this.view.dispatch(setDiagnostics(this.view.state, []));
  }

  /** Underlines what an error is about. */
  mark(problem: Problem, part: Part, place: Place): void {
    const document = this.view.state.doc;
    const first = document.lineAt(Math.min(part.from, document.length));
    const line = document.line(Math.min(document.lines, first.number + place.line - 1));
    const shift = place.line === 1 ? part.from - first.from : 0;
    const from = Math.min(line.to, line.from + shift + place.column - 1);
    const word = /^\w+|^\S/.exec(document.sliceString(from, line.to))?.[0] ?? "";
    const to = Math.min(document.length, from + Math.max(1, word.length));
    const message = `${problem.message}${problem.hint ? `\n${problem.hint}` : ""}`;
    this.view.dispatch(
      setDiagnostics(this.view.state, [{ from: Math.min(from, to), to, severity: "error", message }]),
      { selection: { anchor: from }, scrollIntoView: true },
    );
  }
}

function dialect(functions: string[]): SQLDialect {
  return SQLDialect.define({
    keywords: KEYWORDS,
    types: TYPES,
    builtin: functions.join(" "),
    identifierQuotes: '"',
    doubleQuotedStrings: false,
    spaceAfterDashes: false,
  });
}
