// Puts Vega, Vega-Lite and Vega's interpreter into one file, which the pages carry; their licences stand at its head.
import { build } from "esbuild";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const out = "vega.min.js";
const { metafile, outputFiles } = await build({
  stdin: {
    contents: `
      export { Error, View, logger, parse } from "vega";
      export { compile } from "vega-lite";
      export { expressionInterpreter } from "vega-interpreter";`,
    resolveDir: ".",
  },
  bundle: true, minify: true, format: "iife", globalName: "vega", target: "es2020", platform: "browser",
  legalComments: "none", charset: "ascii", metafile: true, write: false,
});

const packages = new Set(
  Object.keys(metafile.inputs).map((path) => path.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[0]).filter(Boolean),
);
const texts = new Map();
for (const folder of [...packages].sort()) {
  const { name, version, license } = JSON.parse(readFileSync(`${folder}/package.json`));
  const file = existsSync(folder) && readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  const text = file ? readFileSync(`${folder}/${file}`, "utf8").trim() : license;
  texts.set(text, [...(texts.get(text) ?? []), `${name} ${version}`]);
}
const heads = [...texts].map(([text, names]) => `${names.join(", ")}\n\n${text}`);
const code = outputFiles[0].text.replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
writeFileSync(out, `/*!\n${heads.join("\n\n----\n\n").replaceAll("*/", "* /")}\n*/\n${code}`);
console.log(`${out}: ${code.length} bytes`);
