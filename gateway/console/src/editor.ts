// The editor of statements: CodeMirror in a shadow root, where its styles are adopted sheets, so
// that the page's policy need not allow any inline ones.

import { autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion, completionKeymap, ifNotIn, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql, type SQLNamespace } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import type { Place, Problem } from "./api";
import { quoted } from "./dom";
import { at, inside, inText, split, type Part } from "./statements";

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
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px 3px 6px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12.5px", maxWidth: "min(640px, 92vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete": { borderRadius: "6px", overflow: "hidden", boxShadow: "0 6px 20px rgb(0 0 0 / 16%)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "var(--muted)", marginLeft: "12px" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
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

export interface NamedColumn {
  name: string;
  type: string;
  table: string;
}

export interface Names {
  tables: SQLNamespace;
  columns: NamedColumn[];
  /** Signatures by name, such as `date_add(unit, bigint, T) → T`. */
  functions: Map<string, string>;
}

export class Editor {
  readonly element = document.createElement("div");
  private readonly view: EditorView;
  private readonly language = new Compartment();

  constructor(onRun: () => void, onRunAll: () => void, onExplain: () => void) {
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
            { key: "Mod-Alt-Enter", run: () => (onRunAll(), true) },
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

  /** The statements that are selected, or the one that the cursor is in. */
  get current(): Part[] {
    const { from, to, head } = this.view.state.selection.main;
    const selected = inside(this.text, from, to);
    if (selected.length > 0) return selected;
    const part = at(this.text, head);
    return part ? [part] : [];
  }

  get all(): Part[] {
    return split(this.text);
  }

  complete(names: Names): void {
    const signature = (label: string): string | undefined => names.functions.get(label.toLowerCase());
    const word = (label: string, type: string): Completion => {
      const described = signature(label);
      return described
        ? { label: label.toLowerCase(), type: "function", detail: described.slice(label.length), boost: -1 }
        : { label, type, boost: -2 };
    };
    const language = sql({
      dialect: dialect([...names.functions.keys()]),
      schema: names.tables,
      upperCaseKeywords: true,
      keywordCompletion: word,
    });
    const columns = language.language.data.of({ autocomplete: ifNotIn([".", "String", "LineComment", "BlockComment"], columnsOf(names.columns)) });
    this.view.dispatch({ effects: this.language.reconfigure([language, columns]) });
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
    const { line: number, column } = inText(this.text, part, place);
    const line = document.line(Math.min(document.lines, number));
    const from = Math.min(line.to, line.from + column - 1);
    const word = /^\w+|^\S/.exec(document.sliceString(from, line.to))?.[0] ?? "";
    const to = Math.min(document.length, from + Math.max(1, word.length));
    const message = `${problem.message}${problem.hint ? `\n${problem.hint}` : ""}`;
    this.view.dispatch(
      setDiagnostics(this.view.state, [{ from: Math.min(from, to), to, severity: "error", message }]),
      { selection: { anchor: from }, scrollIntoView: true },
    );
  }
}

/** Completes columns: of the tables that a statement names, or of all before it names any. */
function columnsOf(columns: NamedColumn[]): (context: CompletionContext) => CompletionResult | null {
  return (context) => {
    const word = context.matchBefore(/[\w"]+/);
    if (!word && !context.explicit) return null;
    const named = tablesIn(at(context.state.doc.toString(), context.pos)?.text ?? "");
    const own = columns.filter((column) => named.has(column.table.toLowerCase()));
    const options = new Map<string, Completion>();
    for (const { name, type, table } of own.length > 0 ? own : columns) {
      const detail = own.length > 0 ? type : `${type} · ${table}`;
      options.set(`${name} ${type}`, { label: name, apply: quoted(name), type: "property", detail, boost: own.length > 0 ? 2 : 0 });
    }
    return { from: word?.from ?? context.pos, options: [...options.values()], validFor: /^[\w"]*$/ };
  };
}

/** The last parts of the names that stand where tables do. */
function tablesIn(statement: string): Set<string> {
  const after = /\b(?:from|join|into|update|table)\s+(.*?)(?=\b(?:where|group|order|having|limit|on|using|set|values|select|join)\b|[()]|$)/gis;
  const lists = [...statement.matchAll(after)].map((match) => match[1]!);
  const names = lists.flatMap((list) => list.split(",")).map((each) => /^\s*((?:"[^"]*"|\w+)(?:\.(?:"[^"]*"|\w+))*)/.exec(each)?.[1] ?? "");
  return new Set(names.map((name) => name.split(".").at(-1)!.replaceAll('"', "").toLowerCase()));
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
