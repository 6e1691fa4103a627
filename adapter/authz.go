package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd/options"
)

const (
	// allowFor is how long the API server's yes is believed. The HPA comes
	// every 15 s; the library's default of 10 s is forgotten each time.
	allowFor = time.Minute
	// denyFor is short: whoever has just been given a right should not wait.
	denyFor = 10 * time.Second
	// maxDecisions bounds the memory, to an estimated 10 MiB. The library's own cache has
	// room for 8,192 and throws out the oldest, so 5,000 HPAs with two metrics
	// each, asking in turn, would never find theirs.
	maxDecisions = 1 << 15
)

// serverOptions are the library's with our defaults; its flags still win.
func serverOptions() *options.CustomMetricsAdapterServerOptions {
	o := options.NewCustomMetricsAdapterServerOptions()
	o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL = allowFor, denyFor
	return o
}

// serverConfig returns the API server's configuration with what the API server
// decides about callers remembered for as long as the flags say.
func serverConfig(base *adapterbase.AdapterBase) (*apiserver.Config, error) {
	o := base.Authorization
	allow, deny := o.AllowCacheTTL, o.DenyCacheTTL
	// Two caches in a row would believe a right twice as long as was asked for.
	o.AllowCacheTTL, o.DenyCacheTTL = 0, 0
	config, err := base.Config()
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	a := &config.GenericConfig.Authorization
	a.Authorizer = newDecisions(a.Authorizer, allow, deny)
	return config, nil
}

// decisions remembers another authorizer's answers. Errors are not remembered.
type decisions struct {
	authorizer.Authorizer
	allow, deny time.Duration
	limit       int
	now         func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]decision
	swept time.Time
}

type decision struct {
	verdict authorizer.Decision
	reason  string
	until   time.Time
}

func newDecisions(a authorizer.Authorizer, allow, deny time.Duration) *decisions {
	return &decisions{
		Authorizer: a, allow: allow, deny: deny, limit: maxDecisions, now: time.Now,
		known: map[[sha256.Size]byte]decision{},
	}
}

// Authorize implements authorizer.Authorizer.
func (d *decisions) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	k, now := decisionKey(a), d.now()
	d.mu.Lock()
	had, ok := d.known[k]
	d.mu.Unlock()
	if ok && now.Before(had.until) {
		return had.verdict, had.reason, nil
	}
	verdict, reason, err := d.Authorizer.Authorize(ctx, a)
	if err != nil {
		return verdict, reason, err
	}
	keep := d.deny
	if verdict == authorizer.DecisionAllow {
		keep = d.allow
	}
	if keep > 0 {
		d.remember(k, decision{verdict, reason, now.Add(keep)}, now)
	}
	return verdict, reason, nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: a delegated
// decision has no conditions.
func (d *decisions) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(d.Authorize(ctx, a))
}

func (d *decisions) remember(k [sha256.Size]byte, what decision, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= d.limit && now.Sub(d.swept) >= time.Second {
		d.swept = now
		for k, old := range d.known {
			if !now.Before(old.until) {
				delete(d.known, k)
			}
		}
	}
	// Any one will do. The oldest would be the worst choice: HPAs come round
	// in the same order, so it is the next to be asked for.
	for victim := range d.known {
		if len(d.known) < d.limit {
			break
		}
		delete(d.known, victim)
	}
	d.known[k] = what
}

// decisionKey stands for everything a decision depends on.
func decisionKey(a authorizer.Attributes) (key [sha256.Size]byte) {
	h := sha256.New()
	if u := a.GetUser(); u != nil {
		write(h, u.GetName(), u.GetUID())
		write(h, u.GetGroups()...)
		extra := u.GetExtra()
		names := make([]string, 0, len(extra))
		for name := range extra {
			names = append(names, name)
		}
		slices.Sort(names)
		write(h, names...)
		for _, name := range names {
			write(h, extra[name]...)
		}
	}
	write(h, a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(),
		a.GetName(), a.GetPath(), fmt.Sprint(a.IsResourceRequest()))
	// Rights may be given for some labels or fields only.
	// What cannot be parsed narrows nothing, as the library sees it too.
	byLabel, _ := a.GetLabelSelector()
	write(h, "labels")
	for _, r := range byLabel {
		write(h, append([]string{r.Key(), string(r.Operator())}, r.ValuesUnsorted()...)...)
	}
	byField, _ := a.GetFieldSelector()
	write(h, "fields")
	for _, r := range byField {
		write(h, r.Field, string(r.Operator), r.Value)
	}
	h.Sum(key[:0])
	return key
}

// write adds a list so that no other list of other texts adds the same bytes.
func write(h hash.Hash, texts ...string) {
	size := func(n int) { _, _ = h.Write(binary.AppendUvarint(nil, uint64(n))) } // a hash never fails
	size(len(texts))
	for _, text := range texts {
		size(len(text))
		_, _ = h.Write([]byte(text))
	}
}
