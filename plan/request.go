package plan

import (
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// profileName is a profile's name on a model.
type profileName struct{ model, name string }

type profileFound struct {
	profile mig.Profile
	ok      bool
}

type answer struct {
	pack.Answer
	ok bool
}

// requestOf translates the kind's MIG demand into a model's profiles; false
// where the model has no such profile.
func (w *world) requestOf(k *kind, model string) ([]mig.Count, bool) {
	if len(k.pod.Demand.MIG) == 0 || model == "" {
		return nil, len(k.pod.Demand.MIG) == 0
	}
	for _, n := range k.requests {
		if n.model == model {
			return n.counts, n.ok
		}
	}
	n := profileRequest{model: model, ok: true}
	for _, i := range k.pod.Demand.MIG {
		p, ok := w.profile(model, i.Name)
		n.ok = n.ok && ok
		n.counts = added(n.counts, p, clampCount(i.Count))
	}
	if !n.ok {
		n.counts = nil
	}
	n.id = w.requestID(model, n.counts)
	k.requests = append(k.requests, n)
	return n.counts, n.ok
}

// requestID numbers the requests on a model: pods of many kinds share them.
func (w *world) requestID(model string, counts []mig.Count) int {
	key := question(0, model, nil, nil, counts, nil)
	id, ok := w.requestIDs[key]
	if !ok {
		id = len(w.requestIDs)
		w.requestIDs[key] = id
	}
	return id
}

// table is the tables' ForModel, computed once for each model.
func (w *world) table(model string) (*mig.Table, bool) {
	t, known := w.tableOf[model]
	if !known {
		t, _ = w.tables.ForModel(model)
		w.tableOf[model] = t
	}
	return t, t != nil
}

// profile is the profile that a name means on a model.
func (w *world) profile(model, name string) (mig.Profile, bool) {
	q := profileName{model, name}
	f, known := w.profiles[q]
	if !known {
		if t, ok := w.table(model); ok {
			f.profile, f.ok = t.Exact(name)
		}
		w.profiles[q] = f
	}
	return f.profile, f.ok
}
