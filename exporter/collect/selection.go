package collect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Selection says which entities have DCGM series, as dcgm-exporter's -d, -s and
// -p do. The zero Selection is "f".
type Selection struct {
	chosen bool // "g" or "i" were given: not flexible
	// Ids chosen; nil selects none, an empty list all.
	major, minor []int
}

// maxSelected bounds a list of ids: a longer range is a typing error.
const maxSelected = 1024

// ParseSelection reads dcgm-exporter's device option:
//
//	f             GPUs without instances, and the instances of the others
//	g, g:0,2-4    all GPUs (switches, CPUs), or those with the ids
//	i, i:0,2-4    all instances (links, cores), or those with the ids
//	g:0+i         both
func ParseSelection(text string) (Selection, error) {
	if text == "f" {
		return Selection{}, nil
	}
	s := Selection{chosen: true}
	for part := range strings.SplitSeq(text, "+") {
		letter, list, ranged := strings.Cut(part, ":")
		var ids *[]int
		switch letter {
		case "g":
			ids = &s.major
		case "i":
			ids = &s.minor
		case "f":
			return Selection{}, fmt.Errorf("%q: f takes no ids, and cannot be combined with g or i", text)
		default:
			return Selection{}, fmt.Errorf("%q: %q is not f, g or i", text, letter)
		}
		if *ids != nil {
			return Selection{}, fmt.Errorf("%q: %s is given twice", text, letter)
		}
		*ids = []int{}
		if !ranged {
			continue
		}
		found, err := parseIDs(list)
		if err != nil {
			return Selection{}, fmt.Errorf("%q: %w", text, err)
		}
		*ids = found
	}
	return s, nil
}

// parseIDs reads "0,2-4".
func parseIDs(list string) ([]int, error) {
	var ids []int
	for item := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err != nil || err2 != nil {
			return nil, fmt.Errorf("%q is neither an id nor a range such as 2-4", item)
		}
		if last < first {
			return nil, fmt.Errorf("the range %s ends before it begins", item)
		}
		if last-first >= maxSelected || len(ids)+int(last-first) >= maxSelected {
			return nil, fmt.Errorf("more than %d ids", maxSelected)
		}
		for id := first; id <= last; id++ {
			ids = append(ids, int(id))
		}
	}
	return ids, nil
}

// Flexible reports whether the selection is "f": each GPU, or its instances if it is
// partitioned.
func (s Selection) Flexible() bool { return !s.chosen }

// Major reports whether the GPU, switch or CPU with DCGM's id is chosen.
func (s Selection) Major(id int) bool { return !s.chosen || chosen(s.major, id) }

// Minor reports whether the instance, link or core with DCGM's id is chosen.
func (s Selection) Minor(id int) bool { return !s.chosen || chosen(s.minor, id) }

func chosen(ids []int, id int) bool {
	return ids != nil && (len(ids) == 0 || slices.Contains(ids, id))
}

// Missing returns the ids asked for by number that no entity of the reading
// has: "g:7". dcgm-exporter shows no GPU then; here such a GPU is shown when it
// appears.
func (s Selection) Missing(r *Reading) []string {
	var out []string
	for _, id := range s.major {
		if !slices.ContainsFunc(r.Entities, func(e Entity) bool { return e.Kind == GPU && e.GPU == id }) {
			out = append(out, "g:"+strconv.Itoa(id))
		}
	}
	for _, id := range s.minor {
		if !slices.ContainsFunc(r.Entities, func(e Entity) bool { return e.Kind == Instance && e.DCGMID == id }) {
			out = append(out, "i:"+strconv.Itoa(id))
		}
	}
	return out
}
