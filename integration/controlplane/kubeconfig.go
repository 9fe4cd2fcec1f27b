package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes both kubeconfigs with everything they need inside them. They change only
// with the port.
func writeKubeconfigs(d *dir, c *credentials, port int) error {
	for name, user := range map[string]*api.AuthInfo{
		"kubeconfig":         {ClientCertificateData: c.adminCert, ClientKeyData: c.adminKey},
		"kubeconfig-limited": {Token: c.limitedToken},
	} {
		config := api.NewConfig()
		config.Clusters["controlplane"] = &api.Cluster{
			Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
			CertificateAuthorityData: c.ca,
		}
		config.AuthInfos["user"] = user
		config.Contexts["controlplane"] = &api.Context{Cluster: "controlplane", AuthInfo: "user"}
		config.CurrentContext = "controlplane"
		content, err := clientcmd.Write(*config)
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		if err := d.write(name, content); err != nil {
			return err
		}
	}
	return nil
}
