// Looks at a report's page in Chromium: no console message, no request, nothing
// that axe-core objects to in light and dark, no scrolling sideways at 1280, 768
// and 390 px, no table wider than the paper. Prints what is wrong, and fails.
//
//   node check.mjs PAGE.html [FOLDER for pictures and a PDF]
import fs from 'node:fs'
import path from 'node:path'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import puppeteer from 'puppeteer-core'

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const [page, folder] = process.argv.slice(2)
const url = pathToFileURL(path.resolve(page)).href
const wrong = []

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
})

async function open(width, scheme, media = 'screen') {
  const tab = await browser.newPage()
  tab.on('console', m => wrong.push(`console ${m.type()}: ${m.text()}`))
  tab.on('pageerror', e => wrong.push(`error: ${e.message}`))
  tab.on('request', r => { if (r.url() !== url) wrong.push(`request: ${r.url()}`) })
  await tab.setViewport({ width, height: 900, deviceScaleFactor: 1 })
  // Each of the two resets the other.
  if (media === 'print') await tab.emulateMediaType(media)
  else await tab.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }])
  await tab.goto(url)
  return tab
}

for (const width of [1280, 768, 390]) {
  for (const scheme of ['light', 'dark']) {
    const tab = await open(width, scheme)
    const over = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
    if (over > 0) wrong.push(`${width} px: ${over} px too wide`)
    if (folder) await tab.screenshot({ path: path.join(folder, `${width}-${scheme}.png`), fullPage: true })
    // The page allows no script; axe is put in by the browser's own debugger.
    await tab.evaluate(axe)
    const { violations } = await tab.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }))
    for (const v of violations) wrong.push(`axe at ${width} px, ${scheme}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 120)).join(' | ')}`)
    await tab.close()
  }
}

// A4 less its margins, at 96 dots an inch.
const paper = await open(703, 'light', 'print')
const wide = await paper.evaluate(() => [...document.querySelectorAll('table, svg, pre, dl')]
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => `${e.tagName} ${e.querySelector('caption, title')?.textContent ?? ''} by ${Math.round(e.getBoundingClientRect().right - document.documentElement.clientWidth)} px`))
for (const w of wide) wrong.push(`wider than the paper: ${w}`)
if (folder) await paper.pdf({ path: path.join(folder, 'page.pdf'), preferCSSPageSize: true, printBackground: true })
await browser.close()

if (wrong.length) {
  console.error([...new Set(wrong)].join('\n'))
  process.exit(1)
}
console.log('the page is well in Chromium at 1280, 768 and 390 px, light and dark, and on paper')
