// Command controlplane is a real Kubernetes control plane in one binary: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kwok and kubectl. The name of the file or the first argument
// selects the program. Two more programs answer test cases: hpa-calc runs the HPA controller in a simulated
// world, and fit runs the scheduler's filters.
//
// There is one binary instead of six because the programs share most packages: it compiles in a third of the
// time and takes a quarter of the disk space. It has its own module, so its dependencies do not become
// gpuscale's.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// applets are the programs, by their upstream names.
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
