// The server of etcd. Debian 12 has etcd 3.4, but this Kubernetes needs a newer one for its watches.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
