# Functions that pack programs: as archives, and as container images, without a builder of images. Source this file, and set
# when to the second since 1970 that all files get. They need GNU tar.

# pack prints an archive of directory $1. The same files make the same archive.
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$when" -C "$1" -c .; }

# image prints an image of the program $3, of version $1 for linux and the architecture $2, as an archive of the OCI's image
# layout that docker load, podman load and skopeo read.
image() {
  local version=$1 arch=$2 dir layer config manifest certificates name
  name=$(basename "$3")
  dir=$(mktemp -d)
  for certificates in /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; do [ ! -f "$certificates" ] || break; done
  mkdir -p "$dir/root/etc/ssl/certs" "$dir/image/blobs/sha256"
  cp "$3" "$dir/root/$name"
  cp "$certificates" "$dir/root/etc/ssl/certs/ca-certificates.crt" # for rediss://

  layer=$(pack "$dir/root" | blob)
  config=$(blob <<<"{\"architecture\":\"$arch\",\"os\":\"linux\",\"created\":\"$(date -u -d "@$when" +%FT%TZ)\",\"config\":{\"Entrypoint\":[\"/$name\"],\"User\":\"65532:65532\",\"Labels\":{\"org.opencontainers.image.source\":\"https://$library\",\"org.opencontainers.image.version\":\"$version\"}},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$layer\"]}}")
  manifest=$(blob <<<"{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":$(descriptor image.config.v1+json "$config"),\"layers\":[$(descriptor image.layer.v1.tar "$layer")]}")
  echo '{"imageLayoutVersion":"1.0.0"}' >"$dir/image/oci-layout"
  echo "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.index.v1+json\",\"manifests\":[$(descriptor image.manifest.v1+json "$manifest" ",\"platform\":{\"architecture\":\"$arch\",\"os\":\"linux\"},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$name:$version\"}")]}" >"$dir/image/index.json"
  echo "[{\"Config\":\"blobs/sha256/$config\",\"RepoTags\":[\"$name:$version\"],\"Layers\":[\"blobs/sha256/$layer\"]}]" >"$dir/image/manifest.json"
  pack "$dir/image"
  rm -rf "$dir"
}

# blob keeps its input in the image of the function image, and prints its hash.
blob() {
  local hash
  cat >"$dir/blob"
  hash=$(sha256sum "$dir/blob" | cut -d ' ' -f 1)
  mv "$dir/blob" "$dir/image/blobs/sha256/$hash"
  echo "$hash"
}

# descriptor prints the OCI's descriptor of the blob $2, of media type $1, with more members in $3.
descriptor() {
  echo "{\"mediaType\":\"application/vnd.oci.$1\",\"digest\":\"sha256:$2\",\"size\":$(wc -c <"$dir/image/blobs/sha256/$2")${3:-}}"
}
