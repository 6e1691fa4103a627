package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// maxRange bounds the pods that one line may declare.
const maxRange = 10000

// pod declares, changes or removes a pod; several equal ones where the name has
// a range in braces.
func (w *World) pod(s statement) error {
	if len(s.words) == 0 {
		return fmt.Errorf("takes a name first")
	}
	keys := []string{s.words[0]}
	if !s.quoted {
		var err error
		if keys, err = expand(s.words[0]); err != nil {
			return err
		}
	}
	for _, key := range keys {
		if err := w.onePod(s, key); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) onePod(s statement, key string) error {
	r := newReader(s, w.Sim.State.Now)
	gone := false
	if r.flag("gone", &gone); gone {
		w.pods = nil
		if !w.Sim.RemovePod(key) {
			return fmt.Errorf("there is no pod %s", key)
		}
		return r.err()
	}
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return fmt.Errorf("want namespace/name: %q", key)
	}
	state := &w.Sim.State
	i, ok := w.podIndex()[key]
	if !ok {
		i = len(state.Pods)
		w.pods[key] = i
		state.Pods = append(state.Pods, plan.Pod{Namespace: namespace, Name: name, Created: state.Now, PendingSince: state.Now})
	}
	readPod(r, &state.Pods[i])
	return r.err()
}

// podIndex is the index of each pod. It is kept from one pod line to the next,
// so that a file of many pods is read in linear time.
func (w *World) podIndex() map[string]int {
	if w.pods == nil {
		w.pods = make(map[string]int, len(w.Sim.State.Pods))
		for i := range w.Sim.State.Pods {
			w.pods[w.Sim.State.Pods[i].Key()] = i
		}
	}
	return w.pods
}

// expand returns the names of the range in "ns/w-{0..7}": w-0 to w-7. A name
// without a brace is itself.
func expand(word string) ([]string, error) {
	before, rest, ok := strings.Cut(word, "{")
	if !ok {
		return []string{word}, nil
	}
	bounds, after, closed := strings.Cut(rest, "}")
	low, high, dots := strings.Cut(bounds, "..")
	from, err1 := strconv.ParseUint(low, 10, 31)
	to, err2 := strconv.ParseUint(high, 10, 31)
	switch {
	case !closed || !dots || err1 != nil || err2 != nil || strings.Contains(after, "{"):
		return nil, fmt.Errorf("want one range as in ns/name-{0..7}: %q", word)
	case to < from || to-from >= maxRange:
		return nil, fmt.Errorf("a range goes up, and has at most %d members: %q", maxRange, word)
	}
	keys := make([]string, 0, to-from+1)
	for n := from; n <= to; n++ {
		keys = append(keys, before+strconv.FormatUint(n, 10)+after)
	}
	return keys, nil
}
