package collect

// maxPageBytes bounds the text of a Page, whatever its labels hold: a scraper
// takes that much, and it is fifty times what a full node needs.
const maxPageBytes = 32 << 20

// sampleBytes is what a sample takes beside its name and labels, at most.
const sampleBytes = 32

// bound cuts a page down to a number of series (0: any) and to maxPageBytes. Our
// own families come first on a page, so that they are the last to go.
func (p *Page) bound(maxSeries, maxBytes int) {
	series, size := 0, 0
	for i := range p.families {
		f := &p.families[i]
		size += 2 * (len(f.name) + len(f.help) + sampleBytes)
		for j := range f.samples {
			more := size + len(f.name) + len(f.samples[j].labels) + sampleBytes
			if more > maxBytes || maxSeries > 0 && series == maxSeries {
				p.leaveOut(f, j)
				break
			}
			size = more
			series++
		}
	}
}

// leaveOut drops a family's samples from one on and notes how many.
func (p *Page) leaveOut(f *pageFamily, from int) {
	if p.LeftOut == nil {
		p.LeftOut = map[string]int{}
	}
	p.LeftOut[f.name] += len(f.samples) - from
	f.samples = f.samples[:from]
}
