package main

import (
	"os"
	_ "time/tzdata" // time zones of CronJobs

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's credential plugins
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"          // JSON log format
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client-go's metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version metric
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func runAPIServer() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) }

func runControllerManager() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) }

func runScheduler() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) }

func runKubectl() {
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args)) // as upstream's main does: before the command is built
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
