package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// quota declares, changes or removes a tenant. Without fields it is guaranteed
// nothing and unlimited.
func (w *World) quota(x *fields, name string) error {
	state := &w.Sim.State
	i := slices.IndexFunc(state.Tenants, func(t plan.Tenant) bool { return t.Name == name })
	if x.has("gone") {
		if i < 0 {
			return fmt.Errorf("there is no tenant %s", name)
		}
		state.Tenants = slices.Delete(state.Tenants, i, i+1)
		return nil
	}
	if i < 0 {
		state.Tenants = append(state.Tenants, plan.Tenant{Tenant: quota.Tenant{
			Name: name, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}})
		i = len(state.Tenants) - 1
	}
	quotaFields(x, &state.Tenants[i])
	return nil
}

func quotaFields(x *fields, t *plan.Tenant) {
	x.amount("guarantee", &t.Guarantee, quota.Amount{})
	x.amount("limit", &t.Limit, quota.All())
	x.amount("borrow", &t.Borrow, quota.All())
	x.amount("lend", &t.Lend, quota.All())
	x.string("parent", &t.Parent)
	x.duration("reclaim-idle", &t.ReclaimIdle)
}

func (x *fields) amount(key string, v *quota.Amount, unsaid quota.Amount) {
	x.value(key, *v == unsaid, func() string { return amountText(*v) }, func(s string) (err error) { *v, err = parseAmount(s); return err })
}

// A GPU in slices, and the most GPUs that can be written.
const (
	computeSlices = 7
	memorySlices  = 8
	mostGPUs      = (quota.Unlimited - 1) / memorySlices
)

// parseAmount reads "2" (whole GPUs), "3+4" (compute and memory slices), "none"
// and "all"; the latter also for one of the two. Parts of a GPU are in slices:
// no part of 7 compute slices is the same part of 8 memory slices.
func parseAmount(s string) (quota.Amount, error) {
	wrong := fmt.Errorf("want whole GPUs (2), slices of compute and memory (14+16), none or all: %q", s)
	switch s {
	case "none":
		return quota.Amount{}, nil
	case "all":
		return quota.All(), nil
	}
	if compute, memory, both := strings.Cut(s, "+"); both {
		c, err1 := parseSlices(compute)
		m, err2 := parseSlices(memory)
		if err1 != nil || err2 != nil {
			return quota.Amount{}, wrong
		}
		return quota.Amount{Compute: c, Memory: m}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > mostGPUs {
		return quota.Amount{}, wrong
	}
	return quota.Amount{Compute: n * computeSlices, Memory: n * memorySlices}, nil
}

func parseSlices(s string) (int64, error) {
	if s == "all" {
		return quota.Unlimited, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

// amountText writes an amount, in GPUs where it is whole ones.
func amountText(a quota.Amount) string {
	gpus := a.Compute / computeSlices
	switch {
	case a.Zero():
		return "none"
	case a == quota.All():
		return "all"
	case a.Compute == gpus*computeSlices && gpus <= mostGPUs && a.Memory == gpus*memorySlices:
		return strconv.FormatInt(gpus, 10)
	}
	return slicesText(a.Compute) + "+" + slicesText(a.Memory)
}

func slicesText(n int64) string {
	if n == quota.Unlimited {
		return "all"
	}
	return strconv.FormatInt(n, 10)
}
