package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/apiserver"
	adapterbase "sigs.k8s.io/custom-metrics-apiserver/pkg/cmd"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/cmd/options"
)

const (
	// allowFor is how long an allow is cached. The HPA controller asks every
	// 15 s, so the library's default of 10 s would never be hit.
	allowFor = time.Minute
	// denyFor is short, so that a right just granted takes effect soon.
	denyFor = 10 * time.Second
	// maxDecisions bounds the cache, to an estimated 10 MiB. The library's own
	// cache has 8,192 entries and evicts the oldest, so 5,000 HPAs with two
	// metrics each would always miss.
	maxDecisions = 1 << 15
)

// serverOptions are the library's with our defaults; its flags override them.
func serverOptions() *options.CustomMetricsAdapterServerOptions {
	o := options.NewCustomMetricsAdapterServerOptions()
	o.Authorization.AllowCacheTTL, o.Authorization.DenyCacheTTL = allowFor, denyFor
	return o
}

// serverConfig returns the API server's configuration, with the authorizer's
// decisions cached for as long as the flags say.
func serverConfig(base *adapterbase.AdapterBase) (*apiserver.Config, error) {
	o := base.Authorization
	allow, deny := o.AllowCacheTTL, o.DenyCacheTTL
	// Two caches in a row would keep a decision twice as long as configured.
	o.AllowCacheTTL, o.DenyCacheTTL = 0, 0
	config, err := base.Config()
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	a := &config.GenericConfig.Authorization
	a.Authorizer = newDecisions(a.Authorizer, allow, deny)
	return config, nil
}

// decisions caches another authorizer's decisions. Errors are not cached.
type decisions struct {
	authorizer.Authorizer
	allow, deny time.Duration
	known       *cache.LRUExpireCache
}

type decision struct {
	verdict authorizer.Decision
	reason  string
}

func newDecisions(a authorizer.Authorizer, allow, deny time.Duration) *decisions {
	return &decisions{Authorizer: a, allow: allow, deny: deny, known: cache.NewLRUExpireCache(maxDecisions)}
}

// Authorize implements authorizer.Authorizer.
func (d *decisions) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	k := decisionKey(a)
	if had, ok := d.known.Get(k); ok {
		return had.(decision).verdict, had.(decision).reason, nil
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
		d.known.Add(k, decision{verdict, reason}, keep)
	}
	return verdict, reason, nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: a delegated
// decision has no conditions.
func (d *decisions) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(d.Authorize(ctx, a))
}

// decisionKey hashes everything a decision depends on.
func decisionKey(a authorizer.Attributes) [sha256.Size]byte {
	var who *user.DefaultInfo
	if u := a.GetUser(); u != nil {
		who = &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
	}
	// Rights may be granted for some labels or fields only. A selector that
	// cannot be parsed narrows nothing, as in the library.
	byLabel, _ := a.GetLabelSelector()
	byField, _ := a.GetFieldSelector()
	raw, err := json.Marshal([]any{
		who, a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(),
		a.GetName(), a.GetPath(), a.IsResourceRequest(), labels.NewSelector().Add(byLabel...).String(), byField,
	})
	if err != nil { // strings always marshal
		panic(err)
	}
	return sha256.Sum256(raw)
}
