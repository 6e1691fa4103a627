package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// quota declares, changes or removes a tenant. Without fields it is guaranteed
// nothing and unlimited.
func (w *World) quota(x *fields, name string) error {
	is := func(t plan.Tenant) bool { return t.Name == name }
	t, gone, err := declared(x, &w.Sim.State.Tenants, name, is, func() (plan.Tenant, error) {
		return plan.Tenant{Tenant: quota.Tenant{Name: name, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All()}}, nil
	})
	if err == nil && !gone {
		quotaFields(x, t)
	}
	return err
}

func quotaFields(x *fields, t *plan.Tenant) {
	x.amount("guarantee", &t.Guarantee, quota.Amount{})
	x.amount("limit", &t.Limit, quota.All())
	x.amount("borrow", &t.Borrow, quota.All())
	x.amount("lend", &t.Lend, quota.All())
	x.string("parent", &t.Parent)
	x.duration("reclaim-idle", &t.ReclaimIdle)
}

// mostGPUs is the most GPUs that can be written.
const mostGPUs = (quota.Unlimited - 1) / quota.MemorySlices

// amount is "2" (whole GPUs), "3+4" (compute and memory slices), "none" or "all". "all" can
// also stand for one of the two ("3+all"). Parts of a GPU are in slices: no part of 7 compute
// slices is the same part of 8 memory slices. An amount of unsaid is not written.
func (x *fields) amount(key string, v *quota.Amount, unsaid quota.Amount) {
	x.value(key, *v == unsaid, func() string {
		gpus := v.Compute / quota.ComputeSlices
		switch {
		case v.Zero():
			return "none"
		case *v == quota.All():
			return "all"
		case v.Compute == gpus*quota.ComputeSlices && gpus <= mostGPUs && v.Memory == gpus*quota.MemorySlices:
			return strconv.FormatInt(gpus, 10)
		}
		return slicesText(v.Compute) + "+" + slicesText(v.Memory)
	}, func(s string) error {
		switch s {
		case "none":
			s = "0"
		case "all":
			s = "all+all"
		}
		compute, memory, both := strings.Cut(s, "+")
		c, err1 := parseSlices(compute)
		m, err2 := parseSlices(memory)
		switch {
		case err1 == nil && both && err2 == nil:
			*v = quota.Amount{Compute: c, Memory: m}
		case err1 == nil && !both && c <= mostGPUs:
			*v = quota.Amount{Compute: c * quota.ComputeSlices, Memory: c * quota.MemorySlices}
		default:
			return fmt.Errorf("want whole GPUs (2), slices of compute and memory (14+16), none or all: %q", s)
		}
		return nil
	})
}

func parseSlices(s string) (int64, error) {
	if s == "all" {
		return quota.Unlimited, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err
}

func slicesText(n int64) string {
	if n == quota.Unlimited {
		return "all"
	}
	return strconv.FormatInt(n, 10)
}
