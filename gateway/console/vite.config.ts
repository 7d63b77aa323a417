import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { defineConfig } from "vite";

// What the page was built of, for the test that it was built of the sources as they are.
const sources = (): string => {
  const digest = createHash("sha256");
  const files = readdirSync("src").map((name) => `src/${name}`);
  for (const name of ["index.html", "package-lock.json", "vite.config.ts", ...files].sort()) {
    digest.update(`${name}\n`).update(readFileSync(name));
  }
  return `${digest.digest("hex")}\n`;
};

// What the page holds of others says so.
const licenses = (modules: Iterable<string>): string => {
  const folders = [...modules].flatMap((id) => /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []);
  const texts = [...new Set(folders)].sort().map((folder) => {
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    if (!file) throw new Error(`${folder} has no license`);
    return `${folder.split("/node_modules/").at(-1)}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
  });
  return texts.join("\n---\n\n");
};

// Files of fixed names: the gateway serves them by name, and wheels carry them as they are.
export default defineConfig({
  base: "./", // also where a proxy puts the gateway under a path
  plugins: [
    {
      name: "sources",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: "sources.sha256", source: sources() });
        this.emitFile({ type: "asset", fileName: "licenses.txt", source: licenses(this.getModuleIds()) });
      },
    },
  ],
  build: {
    outDir: "../http/console",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    chunkSizeWarningLimit: 1000,
    rollupOptions: {
      output: {
        entryFileNames: "console.js",
        assetFileNames: "console[extname]",
      },
    },
  },
  server: {
    proxy: { "/api": "http://127.0.0.1:8474" },
  },
});
