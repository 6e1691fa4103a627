package quota

import "slices"

// use is what one node's tenant uses.
type use struct {
	own   Amount
	total Amount // own and the children's
	drawn Amount // of share: own, and what the children draw beyond what they keep
}

// pageSize is the number of entries copied with a changed one, a power of two. A
// page is about as large as the list of pages of 500 tenants.
const pageSize = 8

// uses is a list of use by node, in pages that are never written to once they are
// part of a Tree: a changed list shares all pages with the old one but the few on
// the way from a tenant to its root.
type uses struct{ pages []*[pageSize]use }

func newUses(n int) uses {
	pages := make([]*[pageSize]use, (n+pageSize-1)/pageSize)
	for i := range pages {
		pages[i] = new([pageSize]use)
	}
	return uses{pages}
}

func (u uses) at(i int) use { return u.pages[i/pageSize][i%pageSize] }

// edit begins a changed list.
func (u uses) edit() edit { return edit{was: u, now: uses{slices.Clone(u.pages)}} }

// edit is a list of use while it is being changed.
type edit struct{ was, now uses }

// at returns the entry to write to.
func (e edit) at(i int) *use {
	page := &e.now.pages[i/pageSize]
	if *page == e.was.pages[i/pageSize] {
		own := **page
		*page = &own
	}
	return &(*page)[i%pageSize]
}

func (e edit) done() uses { return e.now }
