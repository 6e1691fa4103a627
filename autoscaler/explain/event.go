package explain

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuscale/gpuscale/plan"
)

// maxNote is what the API takes of an Event's note, in bytes.
const maxNote = 1024

// needsSomebody are the reasons under which a pod waits until somebody does
// something: their Events are warnings. The others pass by themselves.
var needsSomebody = []plan.Reason{
	plan.QuotaExceeded, plan.NoPoolFits, plan.PoolAtMax, plan.PoolFixed, plan.RepartitionExhausted, plan.DemandUnreadable,
	plan.GangIncomplete, plan.GangWaits, plan.BorrowedWaits, plan.TooManyUnready, plan.Frozen,
}

// Note is what one line of a pod's Events says of its verdict: what will happen,
// or what is in the way and what to ask for. It reports whether it takes somebody
// for the pod to run.
func Note(v plan.Verdict) (note string, warns bool) {
	warns = slices.Contains(needsSomebody, v.Reason)
	parts := []string{v.Detail}
	if warns {
		parts = append(parts, answer(v.Reason, "").WhatToDo)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		parts = []string{answer(v.Reason, "").Meaning}
	}
	return short(strings.Join(parts, ". "), maxNote), warns
}

// short cuts a text at a rune's end.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const more = " …"
	s = s[:most-len(more)]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + more
}
