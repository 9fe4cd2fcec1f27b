// Kubectl is Kubernetes' command, built from its module, for the image informd-exec.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() { util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand())) }
