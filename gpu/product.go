package gpu

import (
	"strconv"
	"strings"
	"sync"
)

// ParseProduct returns the model that a product name means: a GFD node label
// ("NVIDIA-H100-80GB-HBM3", suffixes "-SHARED" and "-MIG-3g.40gb" included), the
// driver's name ("NVIDIA H100 80GB HBM3") or our own ("H100-80GB"). It is false
// for an unknown name, and for one that does not determine the memory.
func ParseProduct(label string) (Model, bool) {
	if m, ok := byName()[label]; ok {
		return m, true
	}
	return ParseProductMemory(label, 0)
}

// byName are the models by our own names: the fast path, taken once for every GPU
// of a scenario.
var byName = sync.OnceValue(func() map[string]Model {
	all := make(map[string]Model, len(products))
	for _, p := range products {
		all[p.Name] = p.Model
	}
	return all
})

// ParseProductMemory is ParseProduct for a GPU whose memory is known too, in
// MiB (GFD's label nvidia.com/gpu.memory), which distinguishes models that share a
// name. Memory 0 is unknown. It is ignored where the label has a MIG suffix, since
// GFD then reports the memory of an instance.
func ParseProductMemory(label string, memoryMiB int) (Model, bool) {
	name, isMIG := normal(label)
	if m, ok := virtual(name); ok {
		return m, true
	}
	if !isMIG && memoryMiB > 0 {
		if m, ok := longest(name, func(p product) []string { return p.open }, memoryMiB); ok {
			return m, true
		}
	}
	return longest(name, func(p product) []string { return p.spellings }, 0)
}

// ProductName returns the one name of a product: our own where ParseProduct knows
// it, and otherwise the label in its plain form (upper case, words joined by
// dashes, no vendor, no sharing or MIG suffix), so that every spelling of an
// unknown product gives the same name. It is empty for a label that names none.
func ProductName(label string) string {
	if m, ok := ParseProduct(label); ok {
		return m.Name
	}
	name, _ := normal(label)
	return name
}

// normal brings the spellings of a product to one: upper case, words joined by
// dashes, without vendor prefix, sharing or MIG suffix.
func normal(label string) (name string, isMIG bool) {
	words := strings.FieldsFunc(strings.ToUpper(label), func(r rune) bool {
		return r == ' ' || r == '-' || r == '_' || r == '/'
	})
	for len(words) > 0 && maker(words[0]) {
		words = words[1:]
	}
	for i, w := range words {
		if w == "MIG" {
			return strings.Join(words[:i], "-"), true
		}
	}
	if n := len(words); n > 0 && words[n-1] == "SHARED" {
		words = words[:n-1]
	}
	return strings.Join(words, "-"), false
}

// virtual reads the name of a vGPU, as a virtual machine's driver has it: the
// product and a profile, which begins with the memory in GiB ("T4-8Q"). The vGPU has
// only that memory, and no MIG.
func virtual(name string) (Model, bool) {
	i := strings.LastIndexByte(name, '-')
	size, _ := strings.CutSuffix(name[i+1:], "4") // "1B4" has four displays
	size, _ = strings.CutSuffix(size, "ME")       // "5CME" has MIG's media engines
	if i <= 0 || len(size) < 2 || !strings.Contains("ABCQ", size[len(size)-1:]) {
		return Model{}, false
	}
	gib, err := strconv.ParseUint(size[:len(size)-1], 10, 9)
	if err != nil || gib == 0 {
		return Model{}, false
	}
	return Model{Name: name, Vendor: "nvidia", MemoryMiB: int(gib) * 1024}, true
}

func maker(word string) bool {
	switch word {
	case "NVIDIA", "TESLA", "QUADRO", "GEFORCE", "GRID", "AMD", "INSTINCT", "INTEL(R)", "INTEL", "HUAWEI":
		return true
	}
	return false
}

// longest returns the model with the longest spelling that is the beginning of
// name, whole words only. Where memoryMiB is given, the model must have about that
// much, and of two equally long spellings the one with the nearer memory is taken.
func longest(name string, spellings func(product) []string, memoryMiB int) (Model, bool) {
	var best Model
	length := 0
	for _, p := range products {
		if memoryMiB > 0 && !near(p.MemoryMiB, memoryMiB) {
			continue
		}
		for _, s := range spellings(p) {
			nearer := len(s) == length && distance(p.MemoryMiB, memoryMiB) < distance(best.MemoryMiB, memoryMiB)
			if begins(name, s) && (len(s) > length || memoryMiB > 0 && nearer) {
				best, length = p.Model, len(s)
			}
		}
	}
	return best, length > 0
}

func begins(name, s string) bool {
	return strings.HasPrefix(name, s) && (len(name) == len(s) || name[len(s)] == '-')
}

// near allows for memory that the driver reserves: a tenth.
func near(a, b int) bool { return distance(a, b) <= b/10 }

func distance(a, b int) int { return max(a-b, b-a) }
