package main

import (
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/component-base/version"
	"go.etcd.io/etcd/server/v3/embed"
)

var _ = app.NewAPIServerCommand
var _ = embed.StartEtcd
var _ = version.Get
var _ = clientcmd.Load

func main() {}
