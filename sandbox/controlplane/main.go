// Command controlplane is a real Kubernetes control plane in one binary:
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and
// kubectl, chosen by the name it is called by or by its first argument;
// hpa-calc, which lets the HPA controller decide cases in a world of its own; and
// fit, which lets the scheduler's filters say which nodes pods fit.
//
// One binary instead of six because they share most of their packages: it
// compiles in a third of the time and takes a quarter of the disk space.
// It is a module of its own so that none of what it needs becomes a
// dependency of gpuscale.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// applets are the programs inside, by the name they are called by upstream.
var applets = map[string]func(){
	"etcd":                    runEtcd,
	"kube-apiserver":          runAPIServer,
	"kube-controller-manager": runControllerManager,
	"kube-scheduler":          runScheduler,
	"kwok":                    runKWOK,
	"kubectl":                 runKubectl,
	"hpa-calc":                runHPACalc,
	"fit":                     runFit,
}

func main() {
	if run, ok := applets[filepath.Base(os.Args[0])]; ok {
		run()
		return
	}
	if len(os.Args) > 1 {
		if run, ok := applets[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	names := make([]string, 0, len(applets))
	for name := range applets {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(os.Stderr, "usage: %s <%s> [flags]\n", filepath.Base(os.Args[0]), strings.Join(names, "|"))
	os.Exit(2)
}
