package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Holding is what the pods of one owner hold.
type Holding struct {
	Tenant, Namespace, Owner string
	Pods                     int
	// Asked is what the API says the bound pods asked for, Seen what they were
	// seen to hold on cards. They differ where nobody knows who holds what, where
	// a pod that is gone still holds, and where holders share a card equally.
	Asked, Seen Size
}

// Held returns what is held by whom, by tenant, namespace and owner. A holder
// that is not in the snapshot has no owner and no tenant.
func (sv *Survey) Held() HeldTable {
	type key struct{ tenant, namespace, owner string }
	index := map[key]int{}
	var out HeldTable
	row := func(tenant, namespace, owner string) *Holding {
		k := key{tenant, namespace, owner}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			out = append(out, Holding{Tenant: tenant, Namespace: namespace, Owner: owner})
		}
		return &out[i]
	}
	known := map[string]bool{}
	for _, p := range sv.pods {
		if p.Node == "" {
			continue
		}
		h := row(p.Tenant, p.Namespace, p.Owner)
		h.Pods++
		h.Asked = h.Asked.plus(sv.demandSize(p))
		known[p.Key()] = true
	}
	for i := range sv.Cards {
		for k := range sv.Cards[i].Parts {
			p := &sv.Cards[i].Parts[k]
			if p.Holder == "" {
				continue
			}
			h := row(p.Tenant, p.Namespace(), p.Owner)
			h.Seen = h.Seen.plus(p.Size)
			if !known[p.Holder] {
				known[p.Holder] = true
				h.Pods++
			}
		}
	}
	slices.SortFunc(out, func(a, b Holding) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Owner, b.Owner))
	})
	return out
}

// HeldTable is the answer of Survey.Held.
type HeldTable []Holding

// String returns the table, compute in card equivalents.
func (rows HeldTable) String() string {
	t := newTable(3, "tenant", "namespace", "owner", "pods", "asked", "seen")
	for _, r := range rows {
		t.add(r.Tenant, r.Namespace, r.Owner, fmt.Sprint(r.Pods), number(r.Asked.Cards()), number(r.Seen.Cards()))
	}
	return t.String()
}
