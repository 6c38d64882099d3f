; elementwise for neon
define void @elementwise_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {
  %at.0 = getelementptr ptr, ptr %bufs, i64 0
  %x0.p = load ptr, ptr %at.0, align 8
  %at.1 = getelementptr ptr, ptr %bufs, i64 1
  %y.p = load ptr, ptr %at.1, align 8
  call void @elementwise_p0.items(ptr %x0.p, ptr %y.p, i64 %lo, i64 %hi)
  ret void
}
define internal void @elementwise_p0.items(ptr noalias readonly %x0.p, ptr noalias %y.p, i64 %lo, i64 %hi) #0 {
entry:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %items, label %done
items:
  %item = phi i64 [ %lo, %entry ], [ %item.next, %next ]
  %v1 = mul i64 %item, 4
  %v2 = getelementptr i16, ptr %x0.p, i64 %v1
  %v3 = load <4 x i16>, ptr %v2, align 2
  %v4 = bitcast <4 x i16> %v3 to <4 x half>
  %v5 = fpext <4 x half> %v4 to <4 x float>
  %v6 = fcmp olt <4 x float> splat (float 0x4056400000000000), %v5
  %v7 = select <4 x i1> %v6, <4 x float> splat (float 0x4056400000000000), <4 x float> %v5
  %v8 = fcmp olt <4 x float> %v7, splat (float 0xC066000000000000)
  %v9 = select <4 x i1> %v8, <4 x float> splat (float 0xC066000000000000), <4 x float> %v7
  %v10 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v9, <4 x float> splat (float 0x3FF7154760000000), <4 x float> splat (float 0x4168001FC0000000))
  %v11 = fsub <4 x float> %v10, splat (float 0x4168001FC0000000)
  %v12 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v11, <4 x float> splat (float 0xBFE6300000000000), <4 x float> %v9)
  %v13 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v11, <4 x float> splat (float 0x3F2BD01060000000), <4 x float> %v12)
  %v14 = bitcast <4 x float> %v10 to <4 x i32>
  %v15 = lshr <4 x i32> %v14, splat (i32 1)
  %v16 = shl <4 x i32> %v15, splat (i32 23)
  %v17 = bitcast <4 x i32> %v16 to <4 x float>
  %v18 = sub <4 x i32> %v14, %v15
  %v19 = shl <4 x i32> %v18, splat (i32 23)
  %v20 = bitcast <4 x i32> %v19 to <4 x float>
  %v21 = call <4 x float> @llvm.fma.v4f32(<4 x float> splat (float 0x3FC5554900000000), <4 x float> %v13, <4 x float> splat (float 0x3FDFFFFFC0000000))
  %v22 = call <4 x float> @llvm.fma.v4f32(<4 x float> splat (float 0x3F8123A6A0000000), <4 x float> %v13, <4 x float> splat (float 0x3FA5558F40000000))
  %v23 = fmul <4 x float> %v13, %v13
  %v24 = call <4 x float> @llvm.fma.v4f32(<4 x float> splat (float 0x3F56A23520000000), <4 x float> %v23, <4 x float> %v22)
  %v25 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v24, <4 x float> %v23, <4 x float> %v21)
  %v26 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v25, <4 x float> %v13, <4 x float> splat (float 0x3FF0000000000000))
  %v27 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v26, <4 x float> %v13, <4 x float> splat (float 0x3FF0000000000000))
  %v28 = fmul <4 x float> %v27, %v17
  %v29 = fmul <4 x float> %v28, %v20
  %v30 = bitcast <4 x float> %v29 to <4 x i32>
  %v31 = lshr <4 x i32> %v30, splat (i32 16)
  %v32 = and <4 x i32> %v31, splat (i32 1)
  %v33 = add <4 x i32> %v30, splat (i32 32767)
  %v34 = add <4 x i32> %v33, %v32
  %v35 = fcmp uno <4 x float> %v29, %v29
  %v36 = select <4 x i1> %v35, <4 x i32> splat (i32 -1), <4 x i32> %v34
  %v37 = lshr <4 x i32> %v36, splat (i32 16)
  %v38 = trunc <4 x i32> %v37 to <4 x i16>
  %v39 = getelementptr i16, ptr %y.p, i64 %v1
  store <4 x i16> %v38, ptr %v39, align 2
  br label %next
next:
  %item.next = add nuw nsw i64 %item, 1
  %more = icmp slt i64 %item.next, %hi
  br i1 %more, label %items, label %done
done:
  ret void
}
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
attributes #0 = { nounwind "target-cpu"="generic" }
!0 = !{i32 1}
!1 = !{}
