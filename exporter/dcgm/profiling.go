package dcgm

import (
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// profiledRequests are of profiling fields on the GPUs that have them and on their instances. DCGM
// refuses a whole group for one GPU that lacks a field, so GPUs with the same fields go together.
// Refused fields are logged and counted as not supported.
func (r *reader) profiledRequests(wanted []uint16) []request {
	if len(wanted) == 0 || !hasSymbol(symbolProfiling) {
		return nil
	}
	const part = "profiling"
	var gpus, instances []request // side by side
	for _, gpu := range r.layout.gpus {
		fields := intersect(wanted, supportedProfiling(gpu))
		i := slices.IndexFunc(gpus, func(w request) bool { return slices.Equal(w.fields, fields) })
		if i < 0 {
			i, gpus = len(gpus), append(gpus, request{nil, fields, r.every, part})
			instances = append(instances, request{nil, intersect(fields, r.fields.instance), r.every, part})
		}
		gpus[i].entities = append(gpus[i].entities, entityKey{kindGPU, gpu})
		for _, p := range r.layout.instances {
			if p.gpu == gpu {
				instances[i].entities = append(instances[i].entities, p.key)
			}
		}
	}
	return append(gpus, instances...)
}

// supportedProfiling gives the profiling fields a GPU has, as DCGM reports
// them.
func supportedProfiling(gpu uint32) []uint16 {
	groups, err := godcgm.GetSupportedMetricGroups(uint(gpu))
	if err != nil {
		return nil
	}
	var fields []uint16
	for _, g := range groups {
		for _, f := range g.FieldIds {
			fields = append(fields, uint16(f))
		}
	}
	return fields
}
