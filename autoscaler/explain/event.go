package explain

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// needsChange are the reasons of pods that stay pending until users change something:
// their Events are warnings.
var needsChange = []plan.Reason{
	plan.QuotaExceeded, plan.NoPoolFits, plan.PoolAtMax, plan.CapacityKept, plan.PoolFixed, plan.RepartitionExhausted, plan.DemandUnreadable, plan.VolumeUnbound,
	plan.GangIncomplete, plan.GangWaits, plan.BorrowedWaits, plan.TooManyUnready, plan.Frozen,
}

// Note is the note of the Event for a pod's verdict. warns reports whether the pod stays
// pending until users change something; the note then ends with the remedy.
func Note(v plan.Verdict) (note string, warns bool) {
	warns = slices.Contains(needsChange, v.Reason)
	parts := []string{v.Detail}
	if warns {
		parts = append(parts, answer(v.Reason, "").WhatToDo)
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		parts = []string{answer(v.Reason, "").Meaning}
	}
	return strings.Join(parts, ". "), warns
}

// Meaning is the meaning of a reason, empty for an unknown one.
func Meaning(reason plan.Reason) string { return answer(reason, "").Meaning }
