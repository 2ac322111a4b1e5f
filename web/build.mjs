// Builds the script and style of the page: node build.mjs [FOLDER], into src/fgrn/page unless given.
import { build } from "esbuild";
import { mkdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const folder = process.argv[2] ?? `${here}../src/fgrn/page`;
mkdirSync(folder, { recursive: true });

const shared = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
};

// The worker travels inside the script: a page is one file, and starts it from a Blob.
const worker = await build({ ...shared, entryPoints: ["src/worker.ts"], write: false });
// Who copies a page copies preact, whose licence wants to be there.
const licence = readFileSync(`${here}node_modules/preact/LICENSE`, "utf-8").replaceAll("*/", "* /").trim();
await build({
  ...shared,
  banner: { js: `/* With preact:\n${licence}\n*/` },
  entryPoints: { page: "src/main.tsx" },
  define: { WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text) },
  outdir: folder,
});
await build({ absWorkingDir: here, entryPoints: { page: "src/page.css" }, bundle: true, minify: true, outdir: folder });
