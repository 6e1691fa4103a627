package dcgm

import (
	"fmt"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// watchProfiled watches profiling fields on the GPUs that have them and on
// their instances. DCGM refuses a whole group for one GPU that lacks a field,
// so GPUs with the same fields go together. Refused fields are logged and
// counted as not supported.
func (r *reader) watchProfiled(wanted []uint16) error {
	if len(wanted) == 0 || !hasSymbol(symbolProfiling) {
		return nil
	}
	type class struct {
		gpu, instance   []entityKey
		fields, onParts []uint16
	}
	classes := map[string]*class{}
	for _, gpu := range r.layout.gpus {
		fields := intersect(wanted, supportedProfiling(gpu))
		if len(fields) == 0 {
			continue
		}
		key := fmt.Sprint(fields)
		if classes[key] == nil {
			classes[key] = &class{fields: fields, onParts: intersect(fields, r.fields.instance)}
		}
		c := classes[key]
		c.gpu = append(c.gpu, entityKey{kindGPU, gpu})
		for _, p := range r.layout.instances {
			if p.gpu == gpu {
				c.instance = append(c.instance, p.key)
			}
		}
	}
	for _, c := range classes {
		for _, w := range []struct {
			entities []entityKey
			fields   []uint16
		}{{c.gpu, c.fields}, {c.instance, c.onParts}} {
			err := r.watchPaced(w.entities, w.fields, r.every)
			if severs(err) {
				return err
			}
			if err != nil {
				r.options.Log.Warn("dcgm: profiling fields refused", "entities", len(w.entities), "error", err)
			}
		}
	}
	return nil
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
