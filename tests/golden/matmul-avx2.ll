; matmul for avx2
define void @matmul_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
  %at.0 = getelementptr ptr, ptr %bufs, i64 0
  %A.p = load ptr, ptr %at.0, align 8
  %at.1 = getelementptr ptr, ptr %bufs, i64 1
  %B.p = load ptr, ptr %at.1, align 8
  %at.2 = getelementptr ptr, ptr %bufs, i64 2
  %C.p = load ptr, ptr %at.2, align 8
  call void @matmul_p0.items(ptr %A.p, ptr %B.p, ptr %C.p, ptr %scratch, i64 %lo, i64 %hi)
  ret void
}
define internal void @matmul_p0.items(ptr noalias readonly %A.p, ptr noalias readonly %B.p, ptr noalias %C.p, ptr noalias %scratch, i64 %lo, i64 %hi) alignstack(32) #0 {
entry:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %items, label %done
items:
  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]
  %v1 = mul i64 %item, 16
  br label %loop2
loop2:
  %i2 = phi i64 [ 0, %items ], [ %i2.next, %loop2 ]
  %v3 = mul i64 %i2, 32
  %v4 = add i64 %v3, %v1
  %v5 = mul i64 %i2, 16
  %v6 = getelementptr float, ptr %B.p, i64 %v4
  %v7 = load <8 x float>, ptr %v6, align 4
  %v8 = getelementptr float, ptr %scratch, i64 %v5
  store <8 x float> %v7, ptr %v8, align 64
  %v9 = getelementptr i8, ptr %v6, i64 32
  %v10 = load <8 x float>, ptr %v9, align 4
  %v11 = getelementptr i8, ptr %v8, i64 32
  store <8 x float> %v10, ptr %v11, align 64
  %i2.next = add nuw nsw i64 %i2, 1
  %i2.more = icmp slt i64 %i2.next, 20
  br i1 %i2.more, label %loop2, label %after2
after2:
  br label %loop12
loop12:
  %i12 = phi i64 [ 0, %after2 ], [ %i12.next, %after14 ]
  %v13 = mul i64 %i12, 20
  br label %loop14
loop14:
  %i14 = phi i64 [ 0, %loop12 ], [ %i14.next, %loop14 ]
  %v15 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v47, %loop14 ]
  %v16 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v48, %loop14 ]
  %v17 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v51, %loop14 ]
  %v18 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v52, %loop14 ]
  %v19 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v55, %loop14 ]
  %v20 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v56, %loop14 ]
  %v21 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v59, %loop14 ]
  %v22 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v60, %loop14 ]
  %v23 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v63, %loop14 ]
  %v24 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v64, %loop14 ]
  %v25 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v67, %loop14 ]
  %v26 = phi <8 x float> [ zeroinitializer, %loop12 ], [ %v68, %loop14 ]
  %v27 = add i64 %v13, %i14
  %v28 = mul i64 %i14, 16
  %v29 = getelementptr float, ptr %scratch, i64 %v28
  %v30 = load <8 x float>, ptr %v29, align 64
  %v31 = getelementptr i8, ptr %v29, i64 32
  %v32 = load <8 x float>, ptr %v31, align 64
  %v33 = getelementptr float, ptr %A.p, i64 %v27
  %v34 = load float, ptr %v33, align 4
  %v35 = getelementptr i8, ptr %v33, i64 80
  %v36 = load float, ptr %v35, align 4
  %v37 = getelementptr i8, ptr %v33, i64 160
  %v38 = load float, ptr %v37, align 4
  %v39 = getelementptr i8, ptr %v33, i64 240
  %v40 = load float, ptr %v39, align 4
  %v41 = getelementptr i8, ptr %v33, i64 320
  %v42 = load float, ptr %v41, align 4
  %v43 = getelementptr i8, ptr %v33, i64 400
  %v44 = load float, ptr %v43, align 4
  %v45 = insertelement <8 x float> poison, float %v34, i32 0
  %v46 = shufflevector <8 x float> %v45, <8 x float> poison, <8 x i32> zeroinitializer
  %v47 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v46, <8 x float> %v30, <8 x float> %v15)
  %v48 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v46, <8 x float> %v32, <8 x float> %v16)
  %v49 = insertelement <8 x float> poison, float %v36, i32 0
  %v50 = shufflevector <8 x float> %v49, <8 x float> poison, <8 x i32> zeroinitializer
  %v51 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v50, <8 x float> %v30, <8 x float> %v17)
  %v52 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v50, <8 x float> %v32, <8 x float> %v18)
  %v53 = insertelement <8 x float> poison, float %v38, i32 0
  %v54 = shufflevector <8 x float> %v53, <8 x float> poison, <8 x i32> zeroinitializer
  %v55 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v54, <8 x float> %v30, <8 x float> %v19)
  %v56 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v54, <8 x float> %v32, <8 x float> %v20)
  %v57 = insertelement <8 x float> poison, float %v40, i32 0
  %v58 = shufflevector <8 x float> %v57, <8 x float> poison, <8 x i32> zeroinitializer
  %v59 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v58, <8 x float> %v30, <8 x float> %v21)
  %v60 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v58, <8 x float> %v32, <8 x float> %v22)
  %v61 = insertelement <8 x float> poison, float %v42, i32 0
  %v62 = shufflevector <8 x float> %v61, <8 x float> poison, <8 x i32> zeroinitializer
  %v63 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v62, <8 x float> %v30, <8 x float> %v23)
  %v64 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v62, <8 x float> %v32, <8 x float> %v24)
  %v65 = insertelement <8 x float> poison, float %v44, i32 0
  %v66 = shufflevector <8 x float> %v65, <8 x float> poison, <8 x i32> zeroinitializer
  %v67 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v66, <8 x float> %v30, <8 x float> %v25)
  %v68 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v66, <8 x float> %v32, <8 x float> %v26)
  %i14.next = add nuw nsw i64 %i14, 1
  %i14.more = icmp slt i64 %i14.next, 20
  br i1 %i14.more, label %loop14, label %after14
after14:
  %v69 = mul i64 %i12, 32
  %v70 = add i64 %v69, %v1
  %v71 = getelementptr float, ptr %C.p, i64 %v70
  store <8 x float> %v47, ptr %v71, align 4
  %v72 = getelementptr i8, ptr %v71, i64 32
  store <8 x float> %v48, ptr %v72, align 4
  %v73 = getelementptr i8, ptr %v71, i64 128
  store <8 x float> %v51, ptr %v73, align 4
  %v74 = getelementptr i8, ptr %v71, i64 160
  store <8 x float> %v52, ptr %v74, align 4
  %v75 = getelementptr i8, ptr %v71, i64 256
  store <8 x float> %v55, ptr %v75, align 4
  %v76 = getelementptr i8, ptr %v71, i64 288
  store <8 x float> %v56, ptr %v76, align 4
  %v77 = getelementptr i8, ptr %v71, i64 384
  store <8 x float> %v59, ptr %v77, align 4
  %v78 = getelementptr i8, ptr %v71, i64 416
  store <8 x float> %v60, ptr %v78, align 4
  %v79 = getelementptr i8, ptr %v71, i64 512
  store <8 x float> %v63, ptr %v79, align 4
  %v80 = getelementptr i8, ptr %v71, i64 544
  store <8 x float> %v64, ptr %v80, align 4
  %v81 = getelementptr i8, ptr %v71, i64 640
  store <8 x float> %v67, ptr %v81, align 4
  %v82 = getelementptr i8, ptr %v71, i64 672
  store <8 x float> %v68, ptr %v82, align 4
  %i12.next = add nuw nsw i64 %i12, 6
  %i12.more = icmp slt i64 %i12.next, 12
  br i1 %i12.more, label %loop12, label %after12
after12:
  br label %next
next:
  %item.next = add nuw nsw i64 %item, 1
  %more = icmp slt i64 %item.next, %hi
  br i1 %more, label %items, label %done
done:
  ret void
}
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
attributes #0 = { nounwind "target-cpu"="x86-64-v3" "tune-cpu"="x86-64-v3" "prefer-vector-width"="256" }
!0 = !{i32 1}
!1 = !{}
