// Bundles src/ into dist/page.html: one file with style, script and the licences of what is in it, and one place left
// open, @PACELINE_DATA@, which `paceline report --html` fills (common/page/report_page.cc). Run by scripts/build_page.sh.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const kDataPlace = '@PACELINE_DATA@';

async function bundle(entry, options) {
  const result = await build({
    entryPoints: [entry], bundle: true, minify: true, write: false, charset: 'utf8', legalComments: 'none', ...options,
  });
  return result.outputFiles[0].text.trimEnd();
}

// The libraries' own texts; both licences ask that they go with every copy.
function licences() {
  const texts = ['echarts/NOTICE', 'echarts/LICENSE', 'echarts/licenses/LICENSE-d3', 'zrender/LICENSE', 'tslib/LICENSE.txt'].map(
      (file) => `==== ${file}\n\n${readFileSync(`node_modules/${file}`, 'utf8').trimEnd()}\n`);
  return '\n' + texts.join('\n');
}

// What stands inside an element of raw text must not end it.
function refuse(text, what, forbidden) {
  for (const part of forbidden) {
    if (text.toLowerCase().includes(part)) throw new Error(`${what} contains '${part}', which would end its element`);
  }
  return text;
}

const script = refuse(await bundle('src/main.js', { format: 'iife', target: 'es2020' }), 'the script',
                      ['</script', '<!--', kDataPlace.toLowerCase()]);
const style = refuse(await bundle('src/page.css', { target: 'chrome100' }), 'the style', ['</style']);
const parts = {
  '@SCRIPT_HASH@': createHash('sha256').update(script, 'utf8').digest('base64'),
  '@STYLE@': style,
  '@SCRIPT@': script,
  '@LICENCES@': refuse(licences(), 'the licences', ['</script', '<!--']),
};
let page = readFileSync('src/page.html', 'utf8');
for (const [place, text] of Object.entries(parts)) {
  if (page.split(place).length !== 2) throw new Error(`src/page.html: ${place} is to be there once`);
  page = page.split(place).join(text);
}
if (page.split(kDataPlace).length !== 2) throw new Error(`src/page.html: ${kDataPlace} is to be there once`);
mkdirSync('dist', { recursive: true });
writeFileSync('dist/page.html', page);
console.log(`web/dist/page.html: ${page.length} characters`);
