{{/*
Sizes and times as numbers, so that limits can be compared with what the configuration may use.
*/}}

{{/* Bytes of a Kubernetes quantity (4Gi, 500M), of a size of the configuration (512MiB) or of a number. */}}
{{- define "seamline.bytes" -}}
{{- $text := toString . -}}
{{- if kindIs "float64" . -}}{{- $text = . | int64 | toString -}}{{- end -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text | trim | trimSuffix "B" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- mulf (float64 $number) (get $units $unit | default 1 | float64) | int64 -}}
{{- end -}}

{{/* Bytes of a size as Spark writes it (2g, 512m, 2gb); without a unit it means MiB. */}}
{{- define "seamline.sparkBytes" -}}
{{- $text := toString . | lower | trimSuffix "b" -}}
{{- $unit := regexFind "[kmgt]$" $text | default "m" -}}
{{- include "seamline.bytes" (printf "%s%si" (regexFind "^[0-9]+" $text) (upper $unit)) -}}
{{- end -}}

{{/* Whole seconds of a duration (500ms, 30s, 5m, 1h). */}}
{{- define "seamline.seconds" -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" . -}}
{{- $units := dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- mulf (float64 $number) (get $units (trimPrefix $number .)) | int64 -}}
{{- end -}}
