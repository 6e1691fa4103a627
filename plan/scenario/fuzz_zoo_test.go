package scenario_test

import (
	"flag"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

var zoos = flag.Int("zoos", 60, "the number of random worlds that TestZoo lives in; -seed is the first")

// TestZoo runs random worlds of every product, and of unknown ones: instances
// with attributes, parts of GPUs in every form, gangs whose members differ,
// GPUs of several vendors.
func TestZoo(t *testing.T) {
	eachWorld(t, *zoos, func(t *testing.T, r *rand.Rand) {
		b := make([]byte, 100+r.Intn(300))
		r.Read(b)
		zoo(t, &dice{b: b})
	})
}

// zooModels are products without MIG, or unknown ones.
var zooModels = []string{"L40S", "T4", "MI300X", "Mystery-1", "RTX-4090"}

func zoo(t *testing.T, d *dice) {
	w, do := checkedWorld(t)
	d.quotas(do)
	do("policy %s expendable-cutoff=%d", []string{"balance", "no-balance"}[d.n(2)], []int{-10, -30}[d.n(2)])
	var models []string
	for i := range 1 + d.n(3) {
		gpus := mig.Models()
		model, layout := gpus[d.n(len(gpus))], ""
		switch d.n(5) {
		case 0:
			model = zooModels[d.n(len(zooModels))]
		case 1: // whole
		default:
			layout = " layout=" + d.anyLayout(model)
		}
		models = append(models, model)
		do("pool p%d min=%d max=%d price=%d gpus=%d model=%s%s repartition=%s mig-idle-after=%ds mig-duration=5s ready-after=%ds idle-after=2m cpu=%d labels=(zone=z%d)",
			i, d.n(2), 1+d.n(5), d.n(5), 1+d.n(4), model, layout, []string{"idle", "keep-busy", "no"}[d.n(3)], d.n(3)*20, d.n(60), d.n(2)*32, d.n(2))
		if d.n(3) == 0 {
			do("pool p%d priority=%d host-ports=%s", i, d.n(3)-1, []string{"()", "TCP/80"}[d.n(2)])
		}
		for j := range d.n(3) {
			do("node n%d-%d pool=p%d age=%dm", i, j, i, 1+d.n(60))
			do("gpu n%d-%d/0 idle=%ds", i, j, d.n(200))
		}
	}
	for i := range 1 + d.n(8) {
		d.visitor(do, fmt.Sprintf("old/p%d", i), models)
	}
	do("tick %ds", d.n(90))
	for step := 0; step < 10 && d.left(); step++ {
		switch d.n(6) {
		case 0:
			if pods := w.Sim.State.Pods; len(pods) > 0 {
				do("pod %s gone", pods[d.n(len(pods))].Key())
			}
		case 1:
			d.mixedGang(do, fmt.Sprintf("new/g%d", step), models)
		case 2:
			d.share(w, do, step)
		default:
			d.visitor(do, fmt.Sprintf("new/p%d", step), models)
		}
		do("plan apply")
		do("tick %s", time.Duration(1+d.n(90))*time.Second)
	}
}

// visitor is a pod that requests what one of the models has, or nearly.
func (d *dice) visitor(do func(string, ...any), key string, models []string) {
	extra := []string{"", " evictable", fmt.Sprintf(" priority=%d", d.n(3)*100), " tenant=" + tenants[d.n(len(tenants))], fmt.Sprintf(" cpu=%d", d.n(20)), " unmade",
		" evictable priority=-20", " host-ports=TCP/80", " host-ports=(TCP/80/10.0.0.1 UDP/80)", " volumes=(zone:In:z0 | zone:In:z7)", " volumes=(zone:In:z1 & kubernetes.io/hostname:In:n0-0)", " unbound=what"}[d.n(12)]
	do("pod %s requests=(%s)%s%s", key, d.anyRequest(models), extra, d.rules())
}

// mixedGang has members with different requests.
func (d *dice) mixedGang(do func(string, ...any), name string, models []string) {
	size := 1 + d.n(4)
	extra := []string{"", " unmade", " tenant=t2"}[d.n(3)]
	for i := range size {
		do("pod %s-%d requests=(%s) gang=%s gang-min=%d%s", name, i, d.anyRequest(models), name, 1+d.n(size), extra)
	}
}

func (d *dice) anyRequest(models []string) string {
	if table, ok := mig.ForModel(models[d.n(len(models))]); ok && d.n(3) > 0 {
		profiles := table.Profiles()
		return table.Name(profiles[d.n(len(profiles))])
	}
	return []string{"gpu", "gpu*2", "any.gpu", "amd.gpu", "gpu*9", "part:core=300:memory-mib=7000", "part:core=0:memory-mib=30000", "part:core=0:memory=400",
		"part:core=250:gpus=2", "part:core=0", "1g.1gb"}[d.n(11)]
}

// anyLayout is one of the model's maximal layouts, attributes included.
func (d *dice) anyLayout(model string) string {
	table, _ := mig.ForModel(model)
	all := table.Maximal()
	var words []string
	for _, p := range all[(d.n(250)*len(all)/250)%len(all)] {
		words = append(words, fmt.Sprintf("%s@%d", table.Name(p.Profile), p.Start))
	}
	return "(" + strings.Join(words, " ") + ")"
}
