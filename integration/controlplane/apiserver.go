package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/version"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// release is the version of k8s.io/kubernetes in go.mod; a test compares them.
const release = "v1.36.3"

// newAPIServer puts kube-apiserver together on a listener that is already open. The result runs it
// until its context ends.
//
// It goes around kube-apiserver's cobra command, which would take the process's signals for itself.
func newAPIServer(
	ctx context.Context, d *dir, c *credentials,
	ln net.Listener) (func(context.Context) error, error) {
	// No warnings of its own requests to itself, as kube-apiserver's main does.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})

	o := options.NewServerRunOptions()
	o.Etcd.StorageConfig.Transport.ServerList = []string{"unix://" + d.path("etcd.sock")}

	o.SecureServing.Listener = ln
	o.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	o.SecureServing.BindPort = portOf(ln)
	o.SecureServing.ServerCert.CertKey.CertFile = c.serverCert
	o.SecureServing.ServerCert.CertKey.KeyFile = c.serverKey
	// The default of AdvertiseAddress needs a default route, and an Endpoints may not hold a
	// loopback address.
	o.GenericServerRunOptions.AdvertiseAddress = net.IPv4(127, 0, 0, 1)
	o.EndpointReconcilerType = "none"
	o.ServiceClusterIPRanges = "10.0.0.0/16"

	o.Authentication.ClientCert.ClientCA = c.caCert
	o.Authentication.TokenFile.TokenFile = c.tokens
	o.Authentication.ServiceAccounts.Issuers = []string{"https://kubernetes.default.svc"}
	o.Authentication.ServiceAccounts.KeyFiles = []string{c.serviceAccountKey}
	o.ServiceAccountSigningKeyFile = c.serviceAccountKey
	o.Authorization.Modes = []string{"RBAC"}
	// nothing here creates service accounts
	o.Admission.GenericAdmission.DisablePlugins = []string{"ServiceAccount"}

	// Stop at once: end the watches, answer what is in flight, then close the connections.
	o.GenericServerRunOptions.ShutdownWatchTerminationGracePeriod = time.Second
	o.GenericServerRunOptions.ShutdownSendRetryAfter = true

	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	for _, generic := range []*genericapiserver.Config{
		config.KubeAPIs.ControlPlane.Generic,
		&config.ApiExtensions.GenericConfig.Config,
		&config.Aggregator.GenericConfig.Config,
	} {
		generic.EffectiveVersion = released{generic.EffectiveVersion}
	}
	completedConfig, err := config.Complete()
	if err != nil {
		return nil, err
	}
	server, err := app.CreateServerChain(completedConfig)
	if err != nil {
		return nil, err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return nil, err
	}
	return prepared.Run, nil
}

// released makes /version tell the release. The official build writes it with linker flags; without
// them the server calls itself v0.0.0-master+$Format:%H$, which no client can parse.
type released struct{ compatibility.EffectiveVersion }

func (r released) Info() *version.Info {
	info := *r.EffectiveVersion.Info()
	v := r.BinaryVersion()
	info.Major = fmt.Sprint(v.Major())
	info.Minor = fmt.Sprint(v.Minor())
	info.GitVersion = release
	info.GitCommit = ""
	return &info
}
